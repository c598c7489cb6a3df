"""Whether two versions are the same release, whatever post releases they are."""

from __future__ import annotations

import re

_VERSION = re.compile(
    r"""\s*v?
    (?:(?P<epoch>\d+)!)?
    (?P<release>\d+(?:\.\d+)*)
    (?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_number>\d*))?
    (?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?
    (?P<dev>[-_.]?dev[-_.]?(?P<dev_number>\d*))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?
    \s*""",
    re.VERBOSE | re.IGNORECASE,
)
_PHASES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


def same_release(one: str, other: str) -> bool:
    """True for `7.14.0` and `7.14.0.post1`, false for `7.14.0` and `7.14.0rc1`."""
    return _release(one) == _release(other)


def _release(version: str) -> tuple[object, ...]:
    match = _VERSION.fullmatch(version)
    if match is None:
        return (version,)
    numbers = [int(number) for number in match["release"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    phase = (match["pre"] or "").lower()
    local = re.split("[-_.]", (match["local"] or "").lower())
    return (
        int(match["epoch"] or 0),
        tuple(numbers),
        (_PHASES.get(phase, phase), int(match["pre_number"] or 0)),
        int(match["dev_number"] or 0) if match["dev"] else None,
        tuple(part.lstrip("0") or "0" if part.isdigit() else part for part in local),
    )
