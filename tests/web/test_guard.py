"""Who may call."""

import pytest
from fastapi.testclient import TestClient

from salvit.web.app import build_app
from salvit.web.guard import check_listening

TOKEN = "a-token-that-is-long"


def test_the_page_answers_under_its_own_names(client):
    for host in ("127.0.0.1:8700", "localhost:8700", "[::1]:8700", "localhost"):
        assert client.get("/api/project", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8700", "192.168.0.7:8700", "localhost.evil.com", ""])
def test_other_host_names_are_refused(client, host):
    answer = client.get("/api/project", headers={"host": host})
    assert answer.status_code == 421 and "not known as" in answer.json()["detail"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8700"])
def test_other_origins_are_refused(client, origin):
    answer = client.post("/api/keypoints", json={"name": "nose"}, headers={"origin": origin})
    assert answer.status_code == 403 and origin in answer.json()["detail"]
    assert client.get("/api/project").json()["keypoints"] == []


def test_its_own_origin_is_taken(client):
    headers = {"origin": "http://127.0.0.1:8700"}
    assert client.post("/api/keypoints", json={"name": "nose"}, headers=headers).status_code == 201


def test_pictures_are_not_given_to_other_sites(client):
    answer = client.get("/api/pictures/1/file", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403


def test_listening_beyond_this_machine_needs_a_token():
    check_listening("127.0.0.1", None)
    check_listening("::1", None)
    check_listening("localhost", None)
    check_listening("0.0.0.0", TOKEN)
    for host in ("0.0.0.0", "::", "192.168.0.7", "my-machine"):
        with pytest.raises(ValueError, match="token"):
            check_listening(host, None)
    with pytest.raises(ValueError, match="at least 16"):
        check_listening("0.0.0.0", "short")


def test_a_token_is_asked_for_and_kept_in_a_cookie(site):
    with TestClient(build_app(site, host="0.0.0.0", token=TOKEN), base_url="http://192.168.0.7:8700") as client:
        assert client.get("/").status_code == 401 and client.get("/api/project").status_code == 401
        assert client.get("/enter?token=wrong-token-wrong").status_code == 401
        assert client.get("/api/project", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        entered = client.get(f"/enter?token={TOKEN}", follow_redirects=False)
        assert entered.status_code == 303 and "HttpOnly" in entered.headers["set-cookie"]
        assert client.get("/api/project").status_code == 200
        assert client.get("/api/project", headers={"host": "evil.example"}).status_code == 421


def test_a_body_over_the_limit_is_refused_whether_announced_or_not(client, site):
    large = b"x" * (site.limits.body_bytes + 1)
    announced = client.post("/api/keypoints", content=large, headers={"content-type": "application/json"})
    assert announced.status_code == 413 and "limit of 2 MB" in announced.json()["detail"]
    streamed = client.post("/api/keypoints", content=iter([large[:1000], large]))
    assert streamed.status_code == 413


def test_answers_forbid_foreign_scripts_and_frames(client):
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
