"""What the REST API takes and gives: checked here, at the border."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

Number = Annotated[int, Field(ge=0, le=2**53)]
Place = Annotated[FiniteFloat, Field(ge=-1e6, le=1e6)]
Name = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f\x7f]*$")]
Box = tuple[Place, Place, Place, Place]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MarkChange(_Strict):
    """One mark as a person wants it."""

    object: Number
    keypoint: Number
    kind: Literal["placed", "confirmed", "absent"] | None = Field(description="null removes the mark")
    x: Place = 0.0
    y: Place = 0.0
    revision: Number = Field(0, description="revision of the mark that the person saw; 0: there was none")


class MarkChanges(_Strict):
    """Marks to change together: all or none."""

    changes: list[MarkChange] = Field(min_length=1, max_length=2000)


class NewKeypoint(_Strict):
    """A keypoint to add."""

    name: Name


class KeypointChange(_Strict):
    """A keypoint as it should be."""

    name: Name
    deleted: bool = False
    revision: Number


class Link(_Strict):
    """Two keypoints, linked or not."""

    kind: Literal["skeleton", "pair"]
    first: Number
    second: Number
    present: bool = True


class NewObject(_Strict):
    """Another animal, by its box x1, y1, x2, y2 in pixels (edges)."""

    box: Box


class ObjectChange(_Strict):
    """An object as it should be; box null: the whole picture."""

    box: Box | None
    deleted: bool = False
    revision: Number


class PictureChange(_Strict):
    """Take a picture out of the project, or back in; its file stays."""

    deleted: bool


class SettingsChange(_Strict):
    """Settings to change; those that are left out stay."""

    model: str | None = Field(None, max_length=500)
    saliency: str | None = Field(None, max_length=60)
    threshold: Annotated[FiniteFloat, Field(ge=0, le=1)] | None = None
    live: bool | None = None


class NewJob(_Strict):
    """A job to do: ``transductive`` lets the pictures themselves refine what was taught."""

    kind: Literal["detect", "transductive"] = "detect"


class Look(_Strict):
    """The picture on the screen: it comes first."""

    picture: Number


class Keypoint(BaseModel):
    """A keypoint of the project."""

    id: int
    name: str
    revision: int


class Overview(BaseModel):
    """A project without its pictures."""

    name: str
    revision: int
    pictures: int
    keypoints: list[Keypoint]
    skeleton: list[tuple[int, int]]
    pairs: list[tuple[int, int]]
    settings: dict[str, Any]
    limits: dict[str, int]
    jobs: list[Job]


class Point(BaseModel):
    """A point of an object: ``found`` by the detector, or marked by a person."""

    keypoint: int
    x: float
    y: float
    kind: Literal["found", "placed", "confirmed", "absent"]
    revision: int
    score: float
    presence: float
    covariance: tuple[float, float, float] | None = Field(None, description="xx, xy, yy in square pixels")


class Object(BaseModel):
    """One animal in a picture."""

    id: int
    box: tuple[float, float, float, float] | None
    revision: int
    points: list[Point]


class Picture(BaseModel):
    """A picture with everything that is known of it."""

    id: int
    path: str
    width: int
    height: int
    problem: str | None
    read: int = Field(description="orders what was read from one server: the higher, the newer")
    objects: list[Object]


class Added(BaseModel):
    """What became of an upload."""

    pictures: list[Picture]
    refused: list[str]


class Job(BaseModel):
    """A job and how far it is."""

    id: int
    kind: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    done: int
    total: int
    message: str
    created: float
    finished: float | None


class View(BaseModel):
    """Maps (N, H, W), uint8 in base64, stretched between low and high."""

    shape: tuple[int, int, int]
    low: float
    high: float
    values: str


class Views(BaseModel):
    """Maps that explain one object."""

    object: int
    keypoints: list[int]
    window: tuple[float, float, float, float]
    views: dict[str, View]


class Model(BaseModel):
    """A model on this machine."""

    name: str
    title: str
    kind: Literal["released", "match", "trained"]


class Choices(BaseModel):
    """What can be chosen."""

    models: list[Model]
    saliency: list[str]
    formats: list[str]


class Problem(BaseModel):
    """Why a request was refused."""

    detail: Any


Overview.model_rebuild()
