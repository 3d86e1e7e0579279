"""When and on what the bench ran."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.bench import edits
from tests.browser import chromium


def described() -> str:
    """Date, versions and machine in one sentence each."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "streamlit", "plotly", "pandas"))
    return (
        f"{time.strftime('%Y-%m-%d')}. {packages}, dash {dash()}, Python {platform.python_version()}, {browser()}. "
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}; load before the end {os.getloadavg()[0]:.1f}."
    )


def dash() -> str:
    """The version in the bench's own environment."""
    command = [str(edits.DASH_PYTHON), "-c", "from importlib.metadata import version as v; print(v('dash'))"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "missing"


def browser() -> str:
    with sync_playwright() as playwright:
        path = chromium.find(playwright)
    return chromium.version(path) if path else "no Chromium"


def processor() -> str:
    """The CPU's model; platform.processor() is empty on most Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
