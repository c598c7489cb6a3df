"""RECORD, the list of a package's files that installers remove: read, changed, written whole."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ._patience import rename
from ._problem import DevelError

Row = Sequence[str]


class Record:
    """The rows of a RECORD file; the first field of each is a path relative to the site."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Bytes first: a RECORD written elsewhere may have any line endings, a quoted one inside.
        try:
            text = path.read_bytes().decode("utf-8")
            rows = csv.reader(io.StringIO(text, newline=""))
            self.rows: list[Row] = [row for row in rows if row]
        except (UnicodeDecodeError, csv.Error) as error:
            raise DevelError(f"{path} is damaged ({error}); reinstall the package") from error
        self._before = list(self.rows)

    def paths(self) -> list[str]:
        return [row[0] for row in self.rows]

    def remove(self, unwanted: Callable[[str], bool]) -> None:
        self.rows = [row for row in self.rows if not unwanted(row[0])]

    def add(self, paths: Iterable[str]) -> None:
        """Adds files without a digest: they are made here, not shipped."""
        known = set(self.paths())
        for path in paths:
            if path not in known:
                known.add(path)
                self.rows.append([path, "", ""])

    def unique(self) -> None:
        """Keeps the first row of each path."""
        first: dict[str, Row] = {}
        for row in self.rows:
            first.setdefault(row[0], row)
        self.rows = list(first.values())

    def save(self, scratch: Path) -> bool:
        """Replaces the file in one step if a row changed; `scratch` is on the same disk."""
        if self.rows == self._before:
            return False
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(self.rows)
        scratch.write_bytes(text.getvalue().encode("utf-8"))
        shutil.copymode(self.path, scratch)
        rename(scratch, self.path)
        self._before = list(self.rows)
        return True
