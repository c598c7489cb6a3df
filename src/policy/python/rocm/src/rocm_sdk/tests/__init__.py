"""Tests of the installed packages: `rocm-sdk test`."""
