"""Debian's Chromium for tests of the node's page: a browser that notes what it asks for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from tests.shared.page import member, npm

SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
PATIENCE = 120  # s


def started(*more: str) -> webdriver.Chrome:
    """A browser of its own, without a window, that keeps a log of its requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        *more,
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
    return webdriver.Chrome(options=options, service=service)


def requests(driver: webdriver.Chrome) -> list[str]:
    """The addresses that the page has asked for since the last call."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return found


def open_page(driver: webdriver.Chrome, address: str, size: str, theme: str = "light") -> None:
    """The page, with its figures taken from the JSON once."""
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": theme}]},
    )
    width, height = SIZES[size]
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"},
    )
    driver.get(address + "/")
    WebDriverWait(driver, PATIENCE).until(
        lambda page: " - " in page.title and page.title[-1] == "."
    )


def screenshot(driver: webdriver.Chrome, file: Path) -> None:
    """The whole page as a picture; its folder is made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    height = driver.execute_script("return document.documentElement.scrollHeight")
    width = driver.execute_script("return document.documentElement.clientWidth")
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    driver.save_screenshot(str(file))


def violations(driver: webdriver.Chrome) -> list[Any]:
    """What axe-core finds; it is put in past the page's policy, which would refuse it."""
    driver.execute_script(member(npm("tests/browser/axe-core.env"), "axe.min.js").decode())
    found = driver.execute_async_script(
        "const done = arguments[0]; axe.run().then((found) => done(found.violations.map("
        "(one) => [one.id, one.nodes.map((node) => node.html)])))"
    )
    assert isinstance(found, list)
    return found
