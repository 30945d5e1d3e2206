"""``python -m salvit`` is ``salvit``."""

from salvit.cli import main

if __name__ == "__main__":
    main()
