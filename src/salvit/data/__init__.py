"""Data: image files, annotation formats, splits and episodes."""
