"""Makes one thumbnail; knows nothing of jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageOps, UnidentifiedImageError

from brokerjobs.examples.pictures.contracts import NotAPicture, Thumbnail

if TYPE_CHECKING:
    from pathlib import Path

BOX: Final = (256, 256)
"""The pixels that a thumbnail fits into."""
_QUALITY: Final = 80


def shrink(source: Path, target: Path) -> Thumbnail:
    """Writes a WebP thumbnail of `source` to `target`; raises NotAPicture, and OSError if a file cannot be used."""
    with _opened(source) as picture:
        small = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    # A name of its own first: whoever looks at `target` sees a whole file, also if two attempts write it.
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    small.save(unfinished, "WEBP", quality=_QUALITY)
    size = unfinished.stat().st_size
    unfinished.replace(target)
    return Thumbnail(file=target, width=small.width, height=small.height, size=size)


def _opened(source: Path) -> Image.Image:
    """The picture, upright and already small."""
    try:
        with Image.open(source) as picture:
            picture.draft("RGB", (2 * BOX[0], 2 * BOX[1]))  # a JPEG is then decoded at a fraction of its size
            upright = ImageOps.exif_transpose(picture)
            upright.thumbnail(BOX)
    except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise NotAPicture(f"{source.name}: {error}") from error
    except OSError as error:
        if error.errno is None:  # Pillow's own: the file is broken or cut off
            raise NotAPicture(f"{source.name}: {error}") from error
        raise
    return upright
