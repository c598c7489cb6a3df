"""Prepares a process for ROCm: preloads libraries and checks the version."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable

from . import _dist_info
from ._libraries import preload_libraries

_PRELOAD = "ROCM_SDK_PRELOAD_LIBRARIES"


def initialize_process(
    *,
    preload_shortnames: Iterable[str] | None = None,
    rtld_global: bool = True,
    env_override: bool = True,
    check_version: str | re.Pattern[str] | None = None,
    fail_on_version_mismatch: bool = False,
    **unknown: object,
) -> None:
    """Loads libraries, then compares the installed version with the one a program was built for.

    `check_version` is a text in which `*` stands for anything, or a compiled pattern. A mismatch
    is a warning, or with `fail_on_version_mismatch` an error. With `env_override` the variable
    `ROCM_SDK_PRELOAD_LIBRARIES` names further libraries. Parameters of later versions are
    ignored, with a warning.
    """
    if unknown:
        names = ", ".join(sorted(unknown))
        warnings.warn(f"initialize_process ignores unknown parameters: {names}", stacklevel=2)
    if preload_shortnames is not None:
        preload_libraries(*preload_shortnames, rtld_global=rtld_global)
    if env_override:
        _preload_from_environment(rtld_global=rtld_global)
    if check_version is not None:
        _check_version(check_version, fail=fail_on_version_mismatch)


def _preload_from_environment(*, rtld_global: bool) -> None:
    value = os.environ.get(_PRELOAD, "")
    names = [name.strip() for name in re.split("[,;]", value)]
    try:
        preload_libraries(*filter(None, names), rtld_global=rtld_global)
    except Exception as error:
        raise RuntimeError(
            f"Could not preload the libraries that {_PRELOAD}={value!r} names: {error}. "
            "Check the variable, or unset it."
        ) from error


def _check_version(wanted: str | re.Pattern[str], *, fail: bool) -> None:
    version = _dist_info.__version__
    if isinstance(wanted, str):
        shown = wanted
        pattern = ".*".join(re.escape(part) for part in wanted.split("*"))
        matches = re.fullmatch(pattern, version, re.DOTALL) is not None
    else:
        shown = wanted.pattern
        matches = wanted.match(version) is not None
    if matches:
        return
    message = (
        f"The program was compiled against a ROCm version matching '{shown}' but the installed "
        f"ROCm version in this Python environment is {version}."
    )
    if fail:
        raise RuntimeError(message)
    warnings.warn(
        f"{message} This incompatibility may result in unexpected behavior",
        UserWarning,
        stacklevel=3,
    )
