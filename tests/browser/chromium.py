"""The browser of the tests: find a Chromium, or `python -m tests.browser.chromium` to install one, and launch it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence

from playwright.sync_api import Browser, Playwright, sync_playwright

from tests import debian

# the first one is Chromium without its windows, as Playwright takes it by default too: it opens a page a fifth sooner
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# no sandbox: it refuses to run as root, as containers do; the rest keeps the browser from calling home
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Debian's packages bring no font of their own, and a bare system lacks a library that Playwright's driver needs
DEBIAN = NAMES[:2]
BESIDE = ["fonts-dejavu-core", "fonts-liberation", "libatomic1"]


def find(playwright: Playwright, names: Sequence[str] = NAMES) -> str | None:
    """The path of a Chromium that runs: an installed one, else Playwright's own, else None."""
    candidates = [path for name in names if (path := shutil.which(name))]
    candidates.append(playwright.chromium.executable_path)
    return next((path for path in candidates if version(path)), None)


def version(path: str) -> str:
    """What the browser says of itself, or "" if it does not run (a stub, or libraries are missing)."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def launch(playwright: Playwright, names: Sequence[str] = NAMES) -> Browser:
    """Start the first browser of these. Raises RuntimeError where there is none: tests fail then, never skipped."""
    path = find(playwright, names)
    if path is None:
        raise RuntimeError("no Chromium found; `make browser` installs one")
    return playwright.chromium.launch(executable_path=path, args=FLAGS)


def found() -> str | None:
    """The path of a Chromium that Playwright can drive, or None, also where Playwright itself cannot start."""
    try:
        with sync_playwright() as playwright:
            return find(playwright)
    except Exception as error:  # Playwright raises a plain Exception when its driver dies
        print(f"Playwright does not start: {error}", file=sys.stderr)
        return None


def install() -> str | None:
    """Install a Chromium, by Playwright or else, as root, from Debian's packages; its path, or None."""
    print("No Chromium found: trying Playwright's ...", flush=True)
    if debian.succeeds([sys.executable, "-m", "playwright", "install", "chromium"]) and (path := found()):
        return path
    for package in DEBIAN:
        print(f"That failed: trying Debian's package {package} ...", flush=True)
        debian.install([package, *BESIDE])
        if path := found():
            return path
    return None


def main() -> int:
    path = found() or install()
    if path is None:
        print("The browser tests need a Chromium, and none could be installed. Install one by hand.", file=sys.stderr)
        return 1
    print(f"Browser: {version(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
