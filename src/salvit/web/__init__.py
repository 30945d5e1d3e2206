"""The page and its REST API (``salvit serve``)."""
