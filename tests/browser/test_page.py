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

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from lab.paths import ROOT
from tests.shared.browser import (
    PATIENCE,
    SIZES,
    open_page,
    requests,
    screenshot,
    started,
    violations,
)
from tests.shared.page import EVIL, PAGE, STATES, Server, collected

PICTURES = Path(os.environ.get("CAIRN_SCREENSHOTS") or ROOT / "out/page")


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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_states(
    browser: webdriver.Chrome, server: Server, tmp_path: Path, state: str, size: str
) -> None:
    """The sentence, no scrolling sideways, axe-core content, nothing asked of anybody else."""
    browser.set_script_timeout(PATIENCE)
    show(server, tmp_path, state)
    requests(browser)
    browser.get_log("browser")
    open_page(browser, server.address, size, "dark" if state == "tip" else "light")
    found = json.loads((server.settings.parent / "status/status.json").read_text())
    assert browser.find_element(By.TAG_NAME, "h1").text == found["sentence"]
    shown = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#warnings li")]
    assert len(shown) == len(found["warnings"] + found["reports"])
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0
    plots = browser.find_elements(By.CSS_SELECTOR, ".plot:not([hidden]) canvas")
    assert len(plots) == sum(len(points) > 1 for points in found["history"].values())
    assert violations(browser) == []
    screenshot(browser, PICTURES / f"{state}-{size}.png")
    asked = requests(browser)
    assert f"{server.address}/status.json" in asked
    assert [one for one in asked if not one.startswith(server.address + "/")] == []
    # nothing that the policy had to refuse, no error of the script
    assert [one["message"] for one in browser.get_log("browser")] == []
    if state == "hostile":
        assert EVIL in browser.find_element(By.ID, "wallet").text
        assert browser.find_elements(By.CSS_SELECTOR, "body script, main img") == []


@pytest.mark.parametrize("size", SIZES)
def test_before_the_first_look(browser: webdriver.Chrome, tmp_path: Path, size: str) -> None:
    """The page that is there before the collector's is in order, too, and makes way for that."""
    folder = tmp_path / "status"
    folder.mkdir()
    shutil.copy(PAGE / "starting.html", folder / "index.html")
    with Server(tmp_path, folder) as server:
        browser.set_script_timeout(PATIENCE)
        requests(browser)
        browser.get_log("browser")
        open_page(browser, server.address, size)
        assert browser.find_element(By.TAG_NAME, "h1").text == "The node is starting."
        assert violations(browser) == []
        screenshot(browser, PICTURES / f"before-{size}.png")
        assert [one for one in requests(browser) if not one.startswith(server.address + "/")] == []
        assert [one["message"] for one in browser.get_log("browser")] == []
        shutil.copytree(collected(tmp_path / "node", "tip"), folder, dirs_exist_ok=True)
        WebDriverWait(browser, PATIENCE).until(lambda page: "Up to date" in page.title)


def test_keyboard(browser: webdriver.Chrome, server: Server, tmp_path: Path) -> None:
    """All that can be used is reached with the tabulator key, and the focus is seen."""
    show(server, tmp_path, "tip")
    open_page(browser, server.address, "desktop")
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
    open_page(browser, server.address, "desktop")
    (server.settings.parent / "status/status.json").unlink()
    lost = browser.find_element(By.ID, "lost")
    WebDriverWait(browser, PATIENCE).until(lambda _: "does not answer" in lost.text)
