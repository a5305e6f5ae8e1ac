"""What the demo works on: pictures drawn with Pillow, or the reader's own, and a file of sales."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from PIL import Image, ImageDraw, ImageOps

from brokerjobs.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_PICTURES: Final = 200
"""More of the reader's own are left out, so that the demo ends while somebody watches."""

_NAMES: Final = (
    *(
        "harbour",
        "meadow",
        "orchard",
        "lagoon",
        "summit",
        "canyon",
        "glacier",
        "prairie",
        "estuary",
        "moor",
        "vineyard",
    ),
    *(
        "dune",
        "fjord",
        "delta",
        "ridge",
        "marsh",
        "grove",
        "bay",
        "heath",
        "quarry",
        "reef",
        "tundra",
        "valley",
        "coast",
    ),
)
_SIZES: Final = ((1200, 900), (1280, 720), (600, 900), (800, 800), (1400, 600), (640, 480))
_FORMATS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("jpg", {"quality": 88}),
    ("png", {"compress_level": 1}),
    ("webp", {"quality": 80, "method": 0}),
)
_SEED: Final = 42  # the same pictures and sales every time

_SALES: Final = 5_000
_REGIONS: Final = ("north", "east", "south", "west")
_PRODUCTS: Final = {"lantern": 2_490, "kettle": 3_995, "blanket": 5_900, "compass": 1_850, "tent": 18_900}


@dataclass(frozen=True, slots=True)
class Materials:
    """A folder of pictures with how many are in it, the two whose jobs lose their workers, and a file of sales."""

    pictures: Path
    count: int
    starring: tuple[Path, Path]
    sales: Path


def drawn(folder: Path) -> Materials:
    """Pictures drawn into `folder`, and sales; about a second."""
    pictures, sales = folder / "pictures", folder / "sales.csv"
    pictures.mkdir()
    files = list(_draw(pictures))
    _write_sales(sales)
    return Materials(pictures, len(files), (files[0], files[1]), sales)


def given(images: Path, folder: Path) -> Materials:
    """The reader's own pictures, by links in `folder`, and sales.

    Only the files with endings that Pillow knows, at most `MOST_PICTURES`.  Raises ConfigurationError if the folder
    cannot be read or too few of its files are pictures.
    """
    endings = Image.registered_extensions()
    try:
        files = sorted(file for file in images.iterdir() if file.suffix.lower() in endings and file.is_file())
    except OSError as error:
        message = f"--images {images} cannot be read as a folder: {error.strerror}"
        raise ConfigurationError(message) from error
    files = files[:MOST_PICTURES]
    readable = list(islice(filter(_is_picture, files), 2))
    if len(readable) < 2:
        message = f"--images {images} has no two files in it that can be read as pictures (JPEG, PNG, WebP and others)"
        raise ConfigurationError(message)
    pictures, sales = folder / "pictures", folder / "sales.csv"
    pictures.mkdir()
    for file in files:
        (pictures / file.name).symlink_to(file.resolve())
    _write_sales(sales)
    return Materials(pictures, len(files), (readable[0], readable[1]), sales)


def _draw(folder: Path) -> Iterator[Path]:
    """Landscapes of several sizes and formats."""
    dice = random.Random(_SEED)
    for at, name in enumerate(_NAMES):
        suffix, options = _FORMATS[at % len(_FORMATS)]
        file = folder / f"{name}.{suffix}"
        _landscape(_SIZES[at % len(_SIZES)], dice).save(file, **options)
        yield file


def _landscape(size: tuple[int, int], dice: random.Random) -> Image.Image:
    """A sky, a sun, and three ranges of hills, the nearer the darker."""
    width, height = size
    hue = dice.random()
    shades = Image.linear_gradient("L").resize(size)  # pyright: ignore[reportUnknownMemberType]  # its types name numpy
    picture = ImageOps.colorize(shades, _colour(hue, 0.55), _colour(hue + 0.12, 0.95))
    drawing = ImageDraw.Draw(picture)
    radius, x, y = height // 9, dice.randrange(width), dice.randrange(height // 6, height // 2)
    drawing.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_colour(hue + 0.5, 1.0))
    for distance in range(3):
        top = height * (5 + distance) // 9
        ridge = [(x, top + dice.randint(-height // 12, height // 12)) for x in range(0, width + 80, 80)]
        drawing.polygon([(0, height), *ridge, (width, height)], fill=_colour(hue + 0.3, 0.5 - 0.14 * distance))
    return picture


def _colour(hue: float, brightness: float) -> str:
    """A colour as Pillow reads it."""
    return f"hsv({int(hue * 360) % 360}, 55%, {int(brightness * 100)}%)"


def _is_picture(file: Path) -> bool:
    try:
        with Image.open(file) as picture:
            picture.draft("RGB", (64, 64))
            picture.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return False
    return True


def _write_sales(file: Path) -> None:
    dice = random.Random(_SEED)
    first = date(2026, 1, 1)
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(("date", "region", "product", "quantity", "unit_cents"))
        for _ in range(_SALES):
            day = first + timedelta(days=dice.randrange(365))
            product, cents = dice.choice(list(_PRODUCTS.items()))
            writer.writerow((day, dice.choice(_REGIONS), product, dice.randint(1, 9), cents))
