"""`brokerjobs version`."""

from __future__ import annotations

from brokerjobs.cli import options, output


def version(*, output_format: options.OutputFormat = output.Format.TEXT) -> None:
    """Say which brokerjobs this is."""
    import platform  # noqa: PLC0415  # slow
    from importlib import metadata  # noqa: PLC0415  # slow

    ours, python = metadata.version("brokerjobs"), platform.python_version()
    if output_format is output.Format.JSON:
        output.put_json({"schema": "brokerjobs.version/1", "version": ours, "python": python})
    else:
        output.put(f"brokerjobs {ours} (Python {python})")
