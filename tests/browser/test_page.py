"""The page in Debian's Chromium, as its own web server gives it out: every made-up state at the
size of a phone and of a desktop, light and dark.

Screenshots are put into out/page, or where CAIRN_SCREENSHOTS says. The browser's own log of its
network shows that no request leaves the node; axe-core looks for what a screen reader or a keyboard
cannot use.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from lab.paths import ROOT
from tests.shared.page import EVIL, STATES, Server, collected, member, npm

SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
PATIENCE = 120  # s


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core's script."""
    return member(npm("tests/browser/axe-core.env"), "axe.min.js").decode()


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


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    """One browser for all tests of this file."""
    driver = started()
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The web server; the folder that it gives out is filled by each test."""
    work = tmp_path_factory.mktemp("server")
    (work / "status").mkdir()
    (work / "status/metrics").write_text("")
    with Server(work, work / "status") as running:
        yield running


def show(server: Server, root: Path, state: str) -> None:
    """A state's files, to be given out next."""
    folder = server.settings.parent / "status"
    shutil.copytree(collected(root, state), folder, dirs_exist_ok=True)


def requests(driver: webdriver.Chrome) -> list[str]:
    """The addresses that the page has asked for since the last call."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return found


def open_page(driver: webdriver.Chrome, server: Server, size: str, theme: str = "light") -> None:
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
    driver.get(server.address + "/")
    WebDriverWait(driver, PATIENCE).until(
        lambda page: " - " in page.title and page.title[-1] == "."
    )


def screenshot(driver: webdriver.Chrome, name: str) -> None:
    """The whole page as a picture."""
    folder = Path(os.environ.get("CAIRN_SCREENSHOTS") or ROOT / "out/page")
    folder.mkdir(parents=True, exist_ok=True)
    height = driver.execute_script("return document.documentElement.scrollHeight")
    width = driver.execute_script("return document.documentElement.clientWidth")
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    driver.save_screenshot(str(folder / f"{name}.png"))


def violations(driver: webdriver.Chrome, axe: str) -> list[Any]:
    """What axe-core finds; it is put in past the page's policy, which would refuse it."""
    driver.execute_script(axe)
    found = driver.execute_async_script(
        "const done = arguments[0]; axe.run().then((found) => done(found.violations.map("
        "(one) => [one.id, one.nodes.map((node) => node.html)])))"
    )
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_states(
    browser: webdriver.Chrome, server: Server, axe: str, tmp_path: Path, state: str, size: str
) -> None:
    """The sentence, no scrolling sideways, axe-core content, nothing asked of anybody else."""
    browser.set_script_timeout(PATIENCE)
    show(server, tmp_path, state)
    requests(browser)
    browser.get_log("browser")
    open_page(browser, server, size, "dark" if state == "tip" else "light")
    found = json.loads((server.settings.parent / "status/status.json").read_text())
    assert browser.find_element(By.TAG_NAME, "h1").text == found["sentence"]
    shown = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#warnings li")]
    assert len(shown) == len(found["warnings"] + found["reports"])
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0
    plots = browser.find_elements(By.CSS_SELECTOR, ".plot:not([hidden]) canvas")
    assert len(plots) == sum(len(points) > 1 for points in found["history"].values())
    assert violations(browser, axe) == []
    screenshot(browser, f"{state}-{size}")
    asked = requests(browser)
    assert f"{server.address}/status.json" in asked
    assert [one for one in asked if not one.startswith(server.address + "/")] == []
    # nothing that the policy had to refuse, no error of the script
    assert [one["message"] for one in browser.get_log("browser")] == []
    if state == "hostile":
        assert EVIL in browser.find_element(By.ID, "wallet").text
        assert browser.find_elements(By.CSS_SELECTOR, "body script, main img") == []


def test_keyboard(browser: webdriver.Chrome, server: Server, tmp_path: Path) -> None:
    """All that can be used is reached with the tabulator key, and the focus is seen."""
    show(server, tmp_path, "tip")
    open_page(browser, server, "desktop")
    reached = []
    for _ in range(4):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        element = browser.switch_to.active_element
        reached.append(element.text)
        assert element.value_of_css_property("outline-style") == "solid"
    assert reached == [
        "Skip to the figures",
        "The newest blocks as a table",
        "as JSON",
        "for Prometheus",
    ]


def test_without_javascript(server: Server, tmp_path: Path) -> None:
    """The figures are there without the script."""
    show(server, tmp_path, "syncing")
    driver = started("--blink-settings=scriptEnabled=false")
    try:
        driver.get(server.address + "/")
        found = json.loads((server.settings.parent / "status/status.json").read_text())
        text = driver.find_element(By.TAG_NAME, "body").text
        for name in ("sentence", "peers", "mempool", "disk", "temperature", "core_version"):
            assert found["text"][name] in text
        assert "ssh -N -L 8332:127.0.0.1:8332 root@attic.local" in text
    finally:
        driver.quit()


def test_a_node_that_is_gone(browser: webdriver.Chrome, server: Server, tmp_path: Path) -> None:
    """Figures of a node that answers no more are called old."""
    show(server, tmp_path, "tip")
    open_page(browser, server, "desktop")
    (server.settings.parent / "status/status.json").unlink()
    lost = browser.find_element(By.ID, "lost")
    WebDriverWait(browser, PATIENCE).until(lambda _: "does not answer" in lost.text)
