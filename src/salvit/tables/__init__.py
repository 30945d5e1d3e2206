"""Tables of the paper: its figures as data, our results beside them, and what runs the ones that are missing."""
