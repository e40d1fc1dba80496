"""Writes files that a command was asked for."""

from __future__ import annotations

from pathlib import Path

from memorymark.errors import UsageError
from memorymark.messages import Message, OptionName


def require_folder(path: Path | None, option: str) -> None:
    """Raises before anything runs if a file that an option names, if any, could not be written for want of a folder."""
    if path is None:
        return
    named = OptionName(option)
    if path.is_dir():
        said = Message("{option}: {file} is a folder; name a file in it.", option=named, file=path)
    elif not path.absolute().parent.is_dir():
        said = Message(
            "{option}: there is no folder {folder} to write {file} into; create it first.",
            option=named,
            folder=path.parent,
            file=path.name,
        )
    else:
        return
    raise UsageError(said, code="not_writable", field=option, given=path)


def write_output(path: Path, text: str, option: str, *, at_once: bool = False) -> None:
    """Writes a file that an option names; raises an error that says why it cannot.

    ``at_once`` is for files that others read at any time: they see the old or the new one, never a part. What is
    no plain file, such as /dev/stdout, is written to.
    """
    try:
        if at_once and (path.is_file() or not path.exists()) and not path.is_symlink():
            beside = path.with_name(f"{path.name}.new")
            beside.write_text(text, encoding="utf-8")
            beside.replace(path)
        else:
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            Message(
                "{file} cannot be written: {why}; name another file with {option}.",
                file=path,
                why=error.strerror,
                option=OptionName(option),
            ),
            code="not_writable",
            field=option,
            given=path,
        ) from None
