"""The work of the example application, and the materials of the demo."""

from __future__ import annotations

import csv
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from PIL import Image, ImageOps

from brokerjobs.errors import ConfigurationError
from brokerjobs.examples.demo import materials
from brokerjobs.examples.pictures.contracts import NotAPicture
from brokerjobs.examples.pictures.sales import summarize
from brokerjobs.examples.pictures.thumbnail import BOX, shrink

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> materials.Materials:
    return materials.drawn(tmp_path_factory.mktemp("demo"))


def test_materials__are_pictures_of_several_formats_and_sizes(drawn: materials.Materials) -> None:
    formats, sizes = set[str | None](), set[tuple[int, int]]()
    for file in drawn.pictures.iterdir():
        with Image.open(file) as picture:
            picture.load()
            formats.add(picture.format)
            sizes.add(picture.size)

    assert formats == {"JPEG", "PNG", "WEBP"}
    assert len(sizes) == 6
    assert drawn.count == len(list(drawn.pictures.iterdir())) == 24
    assert {file.parent for file in drawn.starring} == {drawn.pictures}


def test_shrink__fits_every_picture_into_the_box_and_leaves_no_other_file(
    drawn: materials.Materials, tmp_path: Path
) -> None:
    for file in drawn.pictures.iterdir():
        made = shrink(file, tmp_path / f"{file.name}.webp")

        with Image.open(file) as before, Image.open(made.file) as after:
            after.load()
            assert after.format == "WEBP"
            assert after.size == (made.width, made.height)
            assert max(after.size) == max(BOX)
            assert after.width / after.height == pytest.approx(before.width / before.height, rel=0.02)
        assert made.size == made.file.stat().st_size
    assert len(list(tmp_path.iterdir())) == drawn.count


def test_shrink__turns_a_picture_upright(tmp_path: Path) -> None:
    # Exif orientation 6: the picture has to be turned by a quarter to be seen as it was taken.
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (800, 200), "teal").save(tmp_path / "turned.jpg", exif=exif)

    made = shrink(tmp_path / "turned.jpg", tmp_path / "turned.webp")

    assert (made.width, made.height) == (64, 256)


def test_shrink__keeps_transparency(tmp_path: Path) -> None:
    Image.new("RGBA", (300, 300), (0, 0, 0, 0)).save(tmp_path / "clear.png")

    made = shrink(tmp_path / "clear.png", tmp_path / "clear.webp")

    with Image.open(made.file) as picture:
        assert picture.convert("RGBA").getpixel((10, 10)) == (0, 0, 0, 0)


@pytest.mark.parametrize("kept", [0, 1, 40, 3000])
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_shrink__says_that_a_broken_file_is_no_picture(tmp_path: Path, suffix: str, kept: int) -> None:
    whole = tmp_path / f"whole.{suffix}"
    ImageOps.colorize(Image.effect_noise((640, 480), 90), "black", "white").save(whole)
    broken = tmp_path / f"broken.{suffix}"
    broken.write_bytes(whole.read_bytes()[:kept])

    with pytest.raises(NotAPicture, match="broken"):
        shrink(broken, tmp_path / "never.webp")

    assert not list(tmp_path.glob("never*"))


def test_shrink__lets_a_missing_file_be_a_failure_that_may_pass(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        shrink(tmp_path / "later.jpg", tmp_path / "later.webp")


def test_summarize__adds_up_what_the_file_says(drawn: materials.Materials, tmp_path: Path) -> None:
    with drawn.sales.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = Counter[tuple[str, str]]()
    for row in rows:
        expected[row["date"][:7], row["region"]] += int(row["quantity"]) * int(row["unit_cents"])

    report = summarize(drawn.sales, tmp_path / "report.csv")

    with report.file.open(newline="") as file:
        written = {(row["month"], row["region"]): int(row["revenue_cents"]) for row in csv.DictReader(file)}
    assert written == dict(expected)
    assert (report.rows, report.revenue) == (len(rows), sum(written.values())) == (5000, sum(expected.values()))
    assert len(written) == 12 * 4
    regions = Counter[str]()
    for (_, region), cents in written.items():
        regions[region] += cents
    assert report.best_region == regions.most_common(1)[0][0]


def test_given_pictures__are_links_to_those_that_pillow_knows(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name in ("b.jpg", "c.PNG"):
        Image.new("RGB", (20, 20)).save(own / name)
    (own / "a.jpg").write_text("broken")
    (own / "notes.txt").write_text("none")
    (own / "folder.png").mkdir()
    work = tmp_path / "work"
    work.mkdir()

    given = materials.given(own, work)

    assert {file.name for file in given.pictures.iterdir()} == {"a.jpg", "b.jpg", "c.PNG"}
    assert all(file.is_symlink() for file in given.pictures.iterdir())
    # A file that is no picture has no effect that could be caught half done.
    assert [file.name for file in given.starring] == ["b.jpg", "c.PNG"]


def test_given_pictures__have_to_be_two(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    Image.new("RGB", (20, 20)).save(own / "only.jpg")
    (own / "other.jpg").write_text("broken")

    with pytest.raises(ConfigurationError, match="no two files"):
        materials.given(own, tmp_path)
