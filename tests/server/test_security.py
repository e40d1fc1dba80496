"""Who may call the service, from where, and what an answer gives away."""

import re
import socket
from dataclasses import fields

import pytest
from sqlalchemy import text

from memorymark.errors import UsageError
from memorymark.messages import Message
from memorymark.server import app as app_module
from memorymark.server import bodies, schemas
from memorymark.server.app import LARGEST_BODY_BYTES, create_app
from memorymark.server.security import HEADERS
from memorymark.server.settings import Settings
from support.calls import QUICK, TOKEN

ORIGIN = "https://dashboard.example.org"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
# What gives away how and where the service runs.
INTERNALS = re.compile(
    r"Traceback|\w+(Error|Exception)\b|\.py\b|\.db\b|site-packages|sqlite|SELECT|/(root|tmp|work|home)"
)
STRANGE_IDS = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e",
    "%2e%2e%2fx",
    "..",
    "%00",
    "abc%00def",
    "%0d%0aSet-Cookie:%20a=b",
    "%ff%fe",
    "%F0%9F%A6%99",
    "'%20OR%201=1--",
    "%25",
    "<script>alert(1)</script>",
    "a" * 5_000,
    "000000000000%20",
]


@pytest.fixture
def client_of(idle_jobs):
    """Makes a client of the app with some settings."""
    return lambda jobs=None, **settings: create_app(jobs or idle_jobs(), Settings(**settings)).test_client()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "gpu-box.example.org", ""])
def test_an_address_that_others_can_reach_needs_a_token(host):
    with pytest.raises(UsageError, match="set a --token, or use --open-to-all"):
        Settings(host=host)

    assert not Settings(host=host, token=TOKEN).is_local
    assert not Settings(host=host, open_to_all=True).is_local


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1"])
def test_this_machine_needs_none(host):
    assert Settings(host=host).is_local


@pytest.mark.parametrize("token", ["", "secret", "123456789012345"])
def test_a_token_that_could_be_guessed_is_refused(token):
    with pytest.raises(UsageError, match="a token needs at least 16 characters"):
        Settings(token=token)


@pytest.mark.parametrize("token", ["ä" * 20, "a" * 20 + "\n", " " * 20, "a" * 20 + " "], ids=ascii)
def test_a_token_that_does_not_survive_a_header_is_refused(token):
    with pytest.raises(UsageError, match="token"):
        Settings(token=token)


@pytest.mark.parametrize("origin", ["dashboard.example.org", "*", "null", "ftp://a.b", "https://a.b/page", "https://"])
def test_what_is_no_origin_is_refused(origin):
    with pytest.raises(UsageError, match="is not an origin"):
        Settings(origins=(origin,))


@pytest.mark.parametrize(
    "settings",
    [
        {"queue_size": 0},
        {"prediction_workers": 0},
        {"max_watchers": 0},
        {"job_seconds": 0},
        {"job_seconds": float("nan")},
        {"job_seconds": float("inf")},
    ],
    ids=str,
)
def test_limits_that_are_none_are_refused(settings):
    with pytest.raises(UsageError, match="must be"):
        Settings(**settings)


def operations(client):
    for path, methods in client.get("/openapi/openapi.json").json["paths"].items():
        for method, operation in methods.items():
            yield (
                method.upper(),
                path.format(job_id="000000000000", sweep_id="000000000000"),
                bool(operation.get("security")),
            )


def test_without_the_token_nothing_is_told_but_that_one_is_needed(client_of):
    client = client_of(token=TOKEN)
    guarded = [(method, path) for method, path, is_guarded in operations(client) if is_guarded]

    assert {("POST", "/analyze"), ("GET", "/metrics"), ("DELETE", "/jobs/000000000000")} <= set(guarded)
    for method, path in [*guarded, ("GET", "/nowhere"), ("POST", "/models"), ("GET", "/jobs/")]:
        answer = client.open(path, method=method)
        assert answer.status_code == 401, path
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        schemas.Error.model_validate(answer.json)


def test_the_front_page_and_health_stay_open(client_of):
    client = client_of(token=TOKEN)
    free = [path for _, path, is_guarded in operations(client) if not is_guarded]

    assert free == ["/", "/health"]
    assert [client.get(path).status_code for path in (*free, "/openapi/swagger")] == [200, 200, 200]


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN} {TOKEN}",
        "Bearer \xff\xfe",
    ],
)
def test_a_wrong_token_does_not_pass(client_of, shown):
    assert client_of(token=TOKEN).get("/jobs", headers={"Authorization": shown}).status_code == 401


@pytest.mark.parametrize("shown", [f"Bearer {TOKEN}", f"bearer {TOKEN}"])
def test_the_right_token_passes(client_of, shown):
    assert client_of(token=TOKEN).get("/jobs", headers={"Authorization": shown}).status_code == 200


@pytest.mark.parametrize(
    "path", ["//jobs", "/./jobs", "/health/../jobs", "/assets/../jobs", "/openapi/../jobs", "/JOBS"]
)
def test_no_detour_leads_past_the_token(client_of, path):
    answer = client_of(token=TOKEN).get("/", environ_overrides={"PATH_INFO": path})

    assert answer.status_code in (308, 401, 404)
    assert b'"jobs"' not in answer.data


def test_a_token_in_the_url_is_none(client_of):
    assert client_of(token=TOKEN).get(f"/jobs?token={TOKEN}&access_token={TOKEN}").status_code == 401


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:5001",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "[::1",
        "[::1].evil.example",
        "10.0.0.1",
    ],
)
def test_another_site_cannot_have_its_name_point_here(client_of, host):
    client = client_of()

    for path in ("/", "/health", "/jobs", "/openapi/openapi.json"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 403
        schemas.Error.model_validate(answer.json)


@pytest.mark.parametrize("host", ["localhost", "localhost:5001", "127.0.0.1:80", "[::1]:5001", "LOCALHOST"])
def test_this_machine_is_called_by_its_own_names(client_of, host):
    assert client_of().get("/health", headers={"Host": host}).status_code == 200


def test_a_service_for_others_answers_to_any_name(client_of):
    client = client_of(host="0.0.0.0", token=TOKEN)

    assert client.get("/jobs", headers={"Host": "gpu-box.example.org", **AUTHORIZED}).status_code == 200


def test_another_sites_page_cannot_ask_for_work_without_a_preflight(client_of):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = client_of().post("/jobs", data='{"model_name": "bert"}', headers={"Content-Type": kind})
        assert answer.status_code == 415


def test_only_configured_sites_may_read_answers(client_of):
    client = client_of(origins=(ORIGIN,))

    friend = client.get("/models", headers={"Origin": ORIGIN})
    strangers = [
        client.get("/models", headers={"Origin": origin})
        for origin in ("https://evil.example", f"{ORIGIN}.evil.example", ORIGIN.replace("https", "http"), "null")
    ]

    assert friend.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "Retry-After" in friend.headers["Access-Control-Expose-Headers"]
    assert "Origin" in friend.headers["Vary"]
    for answer in (*strangers, client.get("/models")):
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert "Origin" in answer.headers["Vary"]
    assert "Access-Control-Allow-Credentials" not in friend.headers


def test_without_configured_sites_none_may(client_of):
    assert "Access-Control-Allow-Origin" not in client_of().get("/models", headers={"Origin": ORIGIN}).headers


def test_a_site_configured_with_a_slash_at_its_end_may(client_of):
    answer = client_of(origins=(f"{ORIGIN}/",)).get("/models", headers={"Origin": ORIGIN})

    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN


def test_a_preflight_needs_no_token_and_allows_what_the_dashboard_sends(client_of):
    client = client_of(origins=(ORIGIN,), token=TOKEN)
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}

    friend = client.options("/jobs", headers={"Origin": ORIGIN, **asked})
    stranger = client.options("/jobs", headers={"Origin": "https://evil.example", **asked})

    assert friend.status_code == 200
    assert friend.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert {"GET", "POST", "DELETE"} <= set(friend.headers["Access-Control-Allow-Methods"].split(", "))
    allowed = friend.headers["Access-Control-Allow-Headers"].lower().split(", ")
    assert {"authorization", "content-type", "last-event-id"} <= set(allowed)
    assert "Access-Control-Allow-Origin" not in stranger.headers


def test_a_configured_site_can_read_why_it_was_refused(client_of):
    answer = client_of(origins=(ORIGIN,), token=TOKEN).get("/jobs", headers={"Origin": ORIGIN})

    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (401, ORIGIN)


def test_every_answer_tells_a_browser_to_be_careful(client_of, idle_jobs, monkeypatch):
    jobs = idle_jobs()
    client = client_of(jobs, token=TOKEN)
    json_of = {"headers": AUTHORIZED}

    answers = [
        client.get("/"),
        client.get("/health"),
        client.get("/openapi/swagger"),
        client.get("/jobs", **json_of),
        client.post("/jobs", json=QUICK, **json_of),
        client.get("/jobs?limit=0", **json_of),
        client.get("/jobs"),
        client_of(jobs).get("/health", headers={"Host": "evil.example"}),
        client.get("/nowhere", **json_of),
        client.patch("/jobs", **json_of),
        client.post("/jobs", data="x" * (LARGEST_BODY_BYTES + 1), content_type="application/json", **json_of),
        client.post("/jobs", data="x", content_type="text/plain", **json_of),
        client.options("/jobs"),
    ]
    monkeypatch.setattr(jobs.store, "jobs", None)
    answers.append(client.get("/jobs", **json_of))

    assert [answer.status_code for answer in answers] == [
        200, 200, 200, 200, 202, 400, 401, 403, 404, 405, 413, 415, 200, 500,
    ]  # fmt: skip
    for answer in answers:
        assert HEADERS.items() <= dict(answer.headers).items()
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert all(
        answer.headers["Cache-Control"] == "no-store" for answer in answers if "swagger" not in answer.request.path
    )


def test_only_the_documentation_may_run_scripts_inside_its_page(client_of):
    client = client_of()

    assert "script-src 'self' 'unsafe-inline'" in client.get("/openapi/swagger").headers["Content-Security-Policy"]
    assert "script-src" not in client.get("/").headers["Content-Security-Policy"]


def test_a_body_may_be_so_large_and_no_larger(client_of):
    client = client_of()
    padding = LARGEST_BODY_BYTES - len('{"model_name": ""}')

    largest = client.post("/jobs", data=f'{{"model_name": "{"x" * padding}"}}', content_type="application/json")
    larger = client.post("/jobs", data=f'{{"model_name": "{"x" * (padding + 1)}"}}', content_type="application/json")

    assert (LARGEST_BODY_BYTES, largest.status_code, larger.status_code) == (327_680, 400, 413)


def test_a_body_announced_as_too_large_is_refused_before_it_is_sent(call):
    with socket.create_connection(("127.0.0.1", call.port), timeout=10) as connection:
        connection.sendall(
            b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 500000000\r\n\r\n"
        )
        answer = connection.recv(1000)

    assert answer.split()[1] == b"413"


@pytest.mark.parametrize("job_id", STRANGE_IDS, ids=[name[:20] for name in STRANGE_IDS])
def test_a_strange_id_is_simply_not_there(call, job_id):
    for method, ending in (("GET", ""), ("DELETE", ""), ("GET", "/events")):
        answer = call(method, f"/jobs/{job_id}{ending}")
        assert answer.status == 404
        assert not INTERNALS.search(answer.json["error"])


@pytest.fixture
def dashboard(tmp_path, monkeypatch):
    folder = tmp_path / "dashboard"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<title>MemoryMark</title>")
    (folder / "assets" / "app.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "secret.txt").write_text("secret")
    monkeypatch.setattr(app_module, "DASHBOARD", folder)
    return folder


def test_a_browser_gets_the_dashboard_and_its_files_without_a_token(client_of, dashboard):
    client = client_of(token=TOKEN)

    with client.get("/", headers={"Accept": "text/html"}) as page, client.get("/assets/app.js") as script:
        assert (page.status_code, page.text, page.mimetype) == (200, "<title>MemoryMark</title>", "text/html")
        assert (script.status_code, script.text) == (200, "1")
        assert "immutable" in script.headers["Cache-Control"]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "../../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "..%5csecret.txt",
        "....//secret.txt",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "app.js/../../secret.txt",
        "app.js%00",
        "",
        ".",
    ],
)
def test_no_path_leaves_the_folder_of_the_dashboards_files(client_of, dashboard, path):
    answer = client_of().get(f"/assets/{path}", follow_redirects=True)

    assert answer.status_code == 404
    assert "secret" not in answer.text
    assert "root:" not in answer.text


def test_only_what_a_caller_can_send_is_called_a_field():
    said = Message("give {seq_len}, see {list.models}, or have the operator raise {serve.worker_memory_gib}.")

    assert said.said_in("http") == "give seq_len, see GET /models, or have the operator raise --worker-memory-gib."
    assert not {setting.name for setting in fields(Settings)} & set(bodies.JobBody.model_fields)


def test_errors_tell_nothing_about_the_inside(call):
    answers = [
        call.get("/nowhere"),
        call.get("/assets/nothing.js"),
        call.get("/jobs?limit=x"),
        call.post("/jobs", "{"),
        call.post("/jobs", b"\xff\xfe\x00"),
        call.post("/jobs", {"model_name": None}),
        call.post("/jobs", {"model_name": "bert", "recipe": {}}),
        call.post("/analyze", {**QUICK, "memory_gib": 1e-9}),
        call.post("/jobs", {**QUICK, "device": "cuda:7", "gpu": None}),
    ]

    for answer in answers:
        assert 400 <= answer.status < 500
        assert not INTERNALS.search(answer.body.decode()), answer.body


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/jobs"),
        ("GET", "/jobs/000000000000"),
        ("GET", "/jobs/000000000000/events"),
        ("DELETE", "/jobs/000000000000"),
        ("POST", "/jobs"),
        ("POST", "/analyze"),
    ],
)
def test_a_history_that_fails_is_a_documented_answer_that_does_not_say_where_it_is(client_of, idle_jobs, method, path):
    jobs = idle_jobs()
    client = client_of(jobs)
    with jobs.store.connection() as connection:
        for table in ("events", "jobs"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.commit()

    answer = client.open(path, method=method, json=QUICK if method == "POST" else None)

    described = client.get("/openapi/openapi.json").json["paths"][path.replace("0" * 12, "{job_id}")][method.lower()]
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    assert "history" in answer.json["error"]
    assert not INTERNALS.search(answer.text)
    assert "503" in described["responses"]
