"""Tables."""

from salvit.tables.readme import animal_pose_table, put_into

__all__ = ["animal_pose_table", "put_into"]
