"""--report FILE.html: a step on one page, counted against what `simulate` says, and opened in Chromium where there is one."""
import collections
import html.parser
import http.server
import json
import re
import shutil
import threading

import onnx
import pytest

import harness as h

GPT = h.ROOT / "python" / "gpt_bytes.onnx"
MLP = h.MODELS / "mlp.onnx"
TRAIN = ("--train", "adamw")
PIPELINE = (GPT, *TRAIN, "--pp", "4", "--microbatches", "8", "--threads", "1")
THOUSAND = (GPT, *TRAIN, "--dp", "16", "--tp", "4", "--pp", "4", "--sp", "4", "--microbatches", "8", "--threads", "1")
CAUSES = ("ranks", "stages", "copies", "end")
CHROMIUM = shutil.which("chromium")


def data_of(page):
    found = re.findall(r'<script type="application/json" id="step">(.*?)</script>', page.read_text(), re.S)
    assert len(found) == 1
    return json.loads(found[0])


def page_of(tmp_path, command, *arguments):
    page = tmp_path / "page.html"
    result = h.checked(h.TESSERA, command, *arguments, "--report", page)
    return data_of(page), result


def bars(flat, width):
    """[(begin, end, ...)] of a lane."""
    until, result = 0, []
    for i in range(0, len(flat), width):
        begin = until + flat[i]
        until = begin + flat[i + 1]
        result.append((begin, until, *flat[i + 2:i + width]))
    return result


def joined(times):
    """Waits are in pieces by their causes, and what is between two of one kind may be shorter than a tick: as one where they touch."""
    result = []
    for begin, end in sorted(times):
        if result and begin - result[-1][1] < 2:
            result[-1] = (result[-1][0], end)
        else:
            result.append((begin, end))
    return result


@pytest.mark.parametrize("options", [(GPT, *TRAIN), (GPT, *TRAIN, "--dp", "2", "--tp", "2"), PIPELINE, (*PIPELINE, "--slow", "2=1.5"),
                                     (GPT, *TRAIN, "--dp", "2", "--device-memory", "20MiB")], ids=["one", "dp2tp2", "1f1b", "slow", "capped"])
def test_bars_are_those_of_the_trace(tmp_path, options):
    """Each class has a lane for each row of its trace, with a bar or a wait for each event, of its name and at its time."""
    data, result = page_of(tmp_path, "simulate", *options, "--json", "--trace", tmp_path / "trace.json")
    step, trace, timeline = json.loads(result.stdout), json.loads((tmp_path / "trace.json").read_text()), data["timeline"]
    texts, tick = data["texts"], step["seconds"] * 1e6 / timeline["ticks"]
    assert timeline["shortest"] == timeline["classes_left_out"] == 0
    assert len(timeline["classes"]) == step["simulated_ranks"] and sum(each["ranks"] for each in timeline["classes"]) == step["ranks"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    for ranks in timeline["classes"]:
        rows = collections.defaultdict(list)
        for event in trace:
            if event["ph"] == "X" and event["pid"] == ranks["rank"]:
                rows[names[event["pid"], event["tid"]]].append((event["ts"], event["ts"] + event["dur"], event["name"], event["cat"]))
        lanes = {lane["name"]: lane for lane in ranks["lanes"]}
        assert len(lanes) == len(ranks["lanes"])
        collectives = sum(lane["operations"] for name, lane in lanes.items() if name.startswith("over "))
        assert collectives == len(rows.pop("communication", []))
        assert {name for name in lanes if not name.startswith("over ")} == set(rows)
        for name, events in rows.items():
            shown, expected = collections.defaultdict(list), collections.defaultdict(list)
            assert lanes[name]["operations"] == len(lanes[name]["bars"]) // 3
            waits = set()
            for begin, end, operation, *cause in bars(lanes[name]["bars"], 3) + bars(lanes[name]["waits"], 5):
                node, kind = (texts[number] for number in timeline["operations"][operation][:2])
                label = "" if name.startswith("sent to") else (node or kind, kind)
                shown[label].append((begin, end))
                waits |= {label} if cause else set()
            for begin, end, *label in events:
                expected["" if name.startswith("sent to") else tuple(label)].append((begin / tick, end / tick))
            assert shown.keys() == expected.keys()
            for label, times in shown.items():
                times, others = (joined(times), joined(expected[label])) if label in waits else (sorted(times), sorted(expected[label]))
                assert times == [(pytest.approx(begin, abs=2), pytest.approx(end, abs=2)) for begin, end in others], label


@pytest.mark.parametrize("options", [(GPT, *TRAIN, "--dp", "2", "--tp", "2"), PIPELINE, (*PIPELINE, "--slow", "2=1.5")], ids=["dp2tp2", "1f1b", "slow"])
def test_figures_are_those_of_simulate(tmp_path, options):
    """Seconds, waits by cause, what is sent by axes and kind, hidden and exposed."""
    data, result = page_of(tmp_path, "simulate", *options, "--json")
    step, timeline = json.loads(result.stdout), data["timeline"]
    for name in ("seconds", "ranks", "simulated_ranks", "machine", "computing", "idle", "flops", "mfu"):
        assert data["step"][name] == step[name], name
    exposed, sent = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(dict)
    for row in data["communication"]:
        exposed[row["axes"]][0] += row["exposed"]
        exposed[row["axes"]][1] += row["hidden"]
        sent[row["axes"]][row["kind"]] = {"count": row["count"], "bytes": row["bytes"]}
        assert row["level"] == 0
    assert sent == step["sent"]
    assert set(exposed) == set(step["communication"])
    for axes, over in step["communication"].items():
        assert exposed[axes] == pytest.approx([over["exposed"], over["hidden"]], rel=1e-9)
    waits, transfers, tick = collections.Counter(), collections.Counter(), step["seconds"] / timeline["ticks"]
    for ranks in timeline["classes"]:
        share = ranks["ranks"] / step["ranks"]
        compute = ranks["lanes"][0]
        for begin, end, _, cause, traffic in bars(compute["waits"], 5):
            name = timeline["causes"][cause]
            waits[name] += (end - begin) * tick * share
            if name == "transfer":
                transfers[data["texts"][timeline["traffic"][traffic][0]]] += (end - begin) * tick * share
        last = max(end for _, end, *_ in bars(compute["bars"], 3) + bars(compute["waits"], 5))
        waits["end"] += (timeline["ticks"] - last) * tick * share
    within = 2 * tick * (1 + max(len(lane["waits"]) for ranks in timeline["classes"] for lane in ranks["lanes"]))
    for cause in CAUSES:
        assert waits[cause] == pytest.approx(step["idle"][cause], abs=within), cause
    for axes, over in step["communication"].items():
        assert transfers[axes] == pytest.approx(over["exposed"], abs=within)


@pytest.mark.parametrize("options", [
    (GPT, *TRAIN), PIPELINE, (GPT, *TRAIN, "--dp", "2", "--device-memory", "20MiB"),
    (GPT, *TRAIN, "--threads", "1", "--dp", "2", "--pp", "2", "--microbatches", "8", "--host-memory", "1GiB", "--device-memory", "10MiB"),
], ids=["one", "1f1b", "capped", "stages"])
def test_memory_is_that_of_the_program(tmp_path, options):
    data, result = page_of(tmp_path, "simulate", *options, "--json")
    step, memory = json.loads(result.stdout), data["memory"]
    assert memory["cap"].get("device") == (int(options[-1][:2]) << 20 if "--device-memory" in options else None)
    assert len(memory["stages"]) == (int(options[options.index("--pp") + 1]) if "--pp" in options else 1)
    for stage in memory["stages"]:
        first = stage["stage"] * step["ranks"] // len(memory["stages"])
        figures = next(each for each in step["memory"] if each["rank"] == first)
        assert stage["peak"] == figures["device"]["peak"] and stage["host_peak"] == figures["host"]["peak"]
        width = 4 + len(memory["categories"])
        moments = [stage["moments"][i:i + width] for i in range(0, len(stage["moments"]), width)]
        live = {moment[0]: sum(moment[2:-2]) for moment in moments}
        assert max(live.values()) == live[stage["fullest"]] == stage["peak"] - stage["unused"] - stage["behind"]
        at_peak = dict(zip(memory["categories"], next(m[2:-2] for m in moments if m[0] == stage["fullest"])))
        assert {**at_peak, "workspace": at_peak["workspace"] + stage["unused"]} == stage["by"]
        assert max(moment[-2] for moment in moments) <= stage["host_peak"]
        held = [size for _, _, size in stage["held"]]
        assert held == sorted(held, reverse=True) and len(held) <= stage["held_count"]
        assert sum(held) <= stage["held_bytes"] == live[stage["fullest"]]
        assert ("moves" in stage) == ("--device-memory" in options)
    if "--device-memory" in options:
        assert any(moment[-2] for moment in moments) and memory["stages"][0]["moves"]["count"] > 0


def unfolded(items):
    for item in items:
        for _ in range(item.get("times", 1)):
            yield from unfolded(item["items"]) if "items" in item else [item]


def test_the_plan_is_folded(tmp_path):
    """Four equal blocks are one; unfolded it is what `compile --report FILE.json` lists."""
    options = (GPT, *TRAIN, "--dp", "2", "--tp", "2")
    data, _ = page_of(tmp_path, "plan", *options)
    h.checked(h.TESSERA, "compile", *options, "--to", "memory", "-o", "/dev/null", "--report", tmp_path / "r.json")
    report, texts, plan = json.loads((tmp_path / "r.json").read_text()), data["texts"], data["plan"]
    assert [(axis["axis"], axis["ranks"], axis["level"]) for axis in plan["mesh"]] == [("data", 2, 0), ("tensor", 2, 0)]
    items = list(unfolded(plan["units"]["items"]))
    assert len(items) == plan["units"]["operators"] and plan["units"]["left_out"] == 0
    expected = [op for op in report["operators"] if op["program"] == "train" and op["forward"]]
    shown = [item for item in items if "kind" in item]
    assert [(texts[i["kind"]], texts[i["pattern"]], [texts[r] for r in i["results"]], i["bytes"]) for i in shown] == \
        [(op["kind"], op["pattern"], op["results"], op["held_bytes"]) for op in expected]
    moves = [(texts[i["from"]], texts[i["to"]], [texts[c] for c in i["collectives"]], i["bytes"]) for i in items if "from" in i]
    assert moves == [(m["from"], m["to"], m["collectives"], int(m["bytes"])) for m in report["reshards"] if m["program"] == "train" and m["forward"]]
    units = [item for item in plan["units"]["items"] if "items" in item]
    assert max(unit["times"] for unit in units) >= 3
    assert len(plan["units"]["items"]) < 40
    assert any("transformer.h.*." in texts[item["module"]] for unit in units for item in unfolded(unit["items"]))


def test_alternatives(tmp_path):
    data, result = page_of(tmp_path, "plan", MLP, "--train", "sgd", "--auto", "--ranks", "2", "--json")
    found, alternatives = json.loads(result.stdout)["plans"][0], data["alternatives"]
    assert len([each for each in alternatives if "changed" not in each["recipe"]]) == found["judged"]
    chosen = [each for each in alternatives if each["chosen"]]
    assert [each["recipe"].split(",")[0] for each in chosen] == [found["recipe"]] and chosen[0]["loses"] == []
    assert chosen[0]["seconds"] == found["seconds"] == data["step"]["seconds"]
    slower = [each for each in alternatives if "reason" not in each and each["seconds"] > 1.1 * chosen[0]["seconds"]]
    assert slower
    for each in slower:
        parts = [more for _, more in each["loses"]]
        assert parts == sorted(parts, reverse=True) and sum(parts) >= 0.5 * (each["seconds"] - chosen[0]["seconds"]), each
    assert any(each.get("reason") for each in alternatives), "what does not compile says why"


def test_a_page_for_each_number_of_ranks(tmp_path):
    h.checked(h.TESSERA, "plan", MLP, "--auto", "--ranks", "1,2", "-o", tmp_path / "p.toml", "--report", tmp_path / "p.html")
    assert [data_of(tmp_path / f"p-{ranks}.html")["step"]["ranks"] for ranks in (1, 2)] == [1, 2]


def test_compile_writes_the_same_page(tmp_path):
    options = (GPT, *TRAIN, "--tp", "2", "--threads", "1")
    simulated, _ = page_of(tmp_path, "simulate", *options)
    compiled, _ = page_of(tmp_path, "compile", *options, "-o", tmp_path / "p")
    planned, _ = page_of(tmp_path, "plan", *options)
    early, _ = page_of(tmp_path, "compile", *options, "--to", "memory", "-o", "/dev/null")
    assert compiled == simulated == planned == early
    assert simulated["alternatives"] is None and simulated["measured"] is None


def test_not_compiled_so_far(tmp_path):
    data, _ = page_of(tmp_path, "compile", GPT, "--tp", "2", "--to", "propagate", "-o", "/dev/null")
    assert data["step"] is data["timeline"] is data["memory"] is data["communication"] is None and data["plan"]["units"]["items"]


class Parts(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.last = ""
        self.tags, self.heads, self.lanes, self.texts = collections.Counter(), [], [], collections.Counter()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.last = tag
        attrs = dict(attrs)
        if "data-lane" in attrs:
            self.lanes.append((attrs["data-lane"], int(attrs["data-bars"]), attrs.get("tabindex"), attrs.get("aria-label")))

    def handle_data(self, text):
        self.texts[text] += 1
        if self.last == "h2":
            self.heads.append(text.strip())
            self.last = ""


def parts_of(text):
    parts = Parts()
    parts.feed(text)
    return parts


def test_names_do_not_end_the_script(tmp_path):
    """Names in a model are anybody's: in the page they are text."""
    model = onnx.load(MLP)
    evil = "</script><script>alert(1)</script><!--<img src=x>"
    for node in model.graph.node:
        node.name = evil + node.name
    onnx.save(model, tmp_path / "evil.onnx")
    data, _ = page_of(tmp_path, "simulate", tmp_path / "evil.onnx", "--train", "sgd")
    assert any(text.startswith(evil) for text in data["texts"])
    page = (tmp_path / "page.html").read_text()
    assert parts_of(page).tags["script"] == 2 and "alert(1)</" not in page and "innerHTML" not in page
    assert re.findall(r"https?:|//[a-z]", page.split('id="step">')[1].split("</script>", 1)[1]) == []
    assert "default-src 'none'" in page


def test_size_at_a_thousand_ranks(tmp_path):
    data, _ = page_of(tmp_path, "simulate", *THOUSAND)
    assert data["step"]["ranks"] == 1024 and sum(each["ranks"] for each in data["timeline"]["classes"]) == 1024
    assert (tmp_path / "page.html").stat().st_size < 2e6
    data, _ = page_of(tmp_path, "simulate", *THOUSAND, "--slow", "5=1.3", "--slow", "600=1.2")
    assert (tmp_path / "page.html").stat().st_size < 2e6
    shown = data["timeline"]["classes"]
    assert len(shown) == 24 and data["timeline"]["classes_left_out"] == data["step"]["simulated_ranks"] - 24 > 0
    assert {5, 600} <= {each["rank"] for each in shown} and {each["stage"] for each in shown} == {0, 1, 2, 3}


def test_short_bars_are_drawn_together(tmp_path):
    """No more bars than a page can hold, none of them lost: time and operations are all there."""
    data, _ = page_of(tmp_path, "simulate", GPT, *TRAIN, "--tp", "4", "--sp", "8", "--microbatches", "8", "--threads", "1", "--jitter", "0.05")
    timeline = data["timeline"]
    assert timeline["shortest"] > 0
    count = 0
    for ranks in timeline["classes"]:
        for lane in ranks["lanes"]:
            shown = bars(lane["bars"], 3)
            count += len(shown) + len(lane["waits"]) // 5
            assert sum(1 if operation >= 0 else -operation for _, _, operation in shown) == lane["operations"]
            assert all(begin >= before for (begin, *_), (_, before, *_) in zip(shown[1:], shown))
    assert 30_000 < count <= 40_000


GPT2 = (h.MODELS / "gpt2.onnx", *TRAIN, "--dp", "2", "--threads", "1")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What 3 steps of a run on 2 ranks were traced as."""
    folder = tmp_path_factory.mktemp("measured")
    h.checked(h.TESSERA, "compile", *GPT2, "-o", folder / "p")
    h.Program(folder / "p", 2).train(folder, h.training_data("gpt2", ["input_ids", "labels"]), 3, "--trace", folder / "trace.json")
    return folder / "trace.json"


def test_a_run_beside_the_promise(tmp_path, measured):
    """Each operator's median over the steps, the largest difference first."""
    data, result = page_of(tmp_path, "simulate", *GPT2, "--measured", measured, "--json")
    step, run = json.loads(result.stdout), data["measured"]
    trace = [e for e in json.loads(measured.read_text()) if e["ph"] == "X" and e["pid"] == 0]
    assert run["steps"] == 3 and run["promised"] == step["seconds"] and 0 < run["seconds"]
    differences = [abs(each["promised"] - each["measured"]) for each in run["operators"]]
    assert differences == sorted(differences, reverse=True) and run["compared"] == len(run["operators"]) > 50
    computing = sum(e["promised"] for e in run["operators"])
    assert computing == pytest.approx(step["computing"], rel=1e-9)
    for each in run["operators"]:
        events = sorted((e["ts"], e["dur"]) for e in trace if e["tid"] == 0 and (e["name"], e["cat"]) == (each["name"], each["kind"]))
        assert len(events) == 3 * each["times"]
        medians = [sorted(events[i + step * each["times"]][1] for step in range(3))[1] for i in range(each["times"])]
        assert each["measured"] == pytest.approx(sum(medians) * 1e-6, rel=1e-6)
    for each in run["communication"]:
        assert each["name"] in step["sent"][each["kind"]] and each["measured"] > 0
    # A page of compile compares as well.
    compiled, _ = page_of(tmp_path, "compile", *GPT2, "--to", "lower", "-o", "/dev/null", "--measured", measured)
    assert compiled["measured"] == run


@pytest.mark.parametrize("options,said", [
    ((h.MODELS / "gpt2.onnx", *TRAIN), "this program has 1 rank, and the trace has a rank 1"),
    ((h.MODELS / "gpt2.onnx", *TRAIN, "--tp", "2"), " of this program runs '"),
    ((h.MODELS / "gpt2.onnx", *TRAIN, "--dp", "2", "--microbatches", "2"), " of this program runs '"),
    ((MLP, "--train", "sgd", "--dp", "2"), " of this program runs '"),
])
def test_measured_of_another_program(tmp_path, measured, options, said):
    page = tmp_path / "p.html"
    result = h.tessera("simulate", *options, "--report", page, "--measured", measured)
    h.assert_error(result, f'"{measured}" is a trace of another program: ', said, "take one of an executable that these options make")
    h.assert_error(h.tessera("compile", *options, "-o", tmp_path / "p", "--report", page, "--measured", measured), said)
    assert not list(tmp_path.iterdir())


def event(**changes):
    return json.dumps([{"ph": "X", "pid": 0, "tid": 0, "name": "n", "cat": "c", "ts": 0, "dur": 1} | changes])


@pytest.mark.parametrize("text,said", [
    ("", "is no trace: it is no JSON list of events"),
    ("{}", "is no trace: it is no JSON list of events"),
    ("[1]", "is no trace: an event is no JSON object"),
    ("[{}]", 'is no trace: an event has no text "ph"'),
    (event(name=3), 'is no trace: an event has no text "name"'),
    (event(ts=None), 'is no trace: an event has no number "ts"'),
    (event(tid=1e30), "is no trace: an event's \"tid\" is 1e+30, no whole number of a rank or row"),
    ("[]", "is a trace of another program: it has no step of a rank of this program"),
    (event(pid=-1), "is a trace of another program: this program has 2 ranks, and the trace has a rank -1"),
    (event(), "is a trace of another program: rank 0 of this program runs '"),
])
def test_what_is_no_trace(tmp_path, text, said):
    (tmp_path / "t.json").write_text(text)
    result = h.tessera("simulate", MLP, "--train", "sgd", "--dp", "2", "--report", tmp_path / "p.html", "--measured", tmp_path / "t.json")
    h.assert_error(result, f'"{tmp_path}/t.json" {said}')
    if "is no trace: " in said:
        h.assert_error(result, "; an executable's train --trace FILE.json writes one")


def test_measured_of_other_sizes(tmp_path, measured):
    """Names are the model's: a trace says what its programs compute, too."""
    trace = json.loads(measured.read_text())
    programs = next(e["args"]["flops"] for e in trace if e["name"] == "process_name" and e["pid"] == 1)
    assert programs["train"] > 0
    programs["train"] *= 2
    (tmp_path / "t.json").write_text(json.dumps(trace))
    result = h.tessera("simulate", *GPT2, "--report", tmp_path / "p.html", "--every-rank", "--measured", tmp_path / "t.json")
    h.assert_error(result, "is a trace of another program: a step of rank 1 of this program has ", " floating-point operations, and in the trace ")


def test_an_operator_that_the_trace_has_too_seldom(tmp_path, measured):
    trace = json.loads(measured.read_text())
    names = collections.Counter((e["name"], e["cat"]) for e in trace if e["ph"] == "X" and e["pid"] == 0 and e["tid"] == 0)
    step, _ = page_of(tmp_path, "simulate", *GPT2, "--measured", measured)
    once = next(each for each in step["measured"]["operators"] if each["times"] == 1)
    gone = next(e for e in trace if (e["name"], e.get("cat"), e["pid"]) == (once["name"], once["kind"], 0))
    assert names[once["name"], once["kind"]] == 3
    (tmp_path / "t.json").write_text(json.dumps([e for e in trace if e is not gone]))
    result = h.tessera("simulate", *GPT2, "--report", tmp_path / "p.html", "--measured", tmp_path / "t.json")
    h.assert_error(result, "as often as others in each step, and in the trace it does not")


@pytest.mark.parametrize("command,options,said,status", [
    ("simulate", "--report r.txt", "--report=r.txt: expected FILE.html", 2),
    ("simulate", "--report r.json", "--report=r.json: expected FILE.html", 2),
    ("plan", "--report r.json", "--report=r.json: expected FILE.html", 2),
    ("compile", "--to lower -o /dev/null --report r.txt", "--report=r.txt: expected FILE.json or FILE.html", 2),
    ("simulate", "--measured t.json", "--measured=t.json: needs --report FILE.html, which it is shown in", 2),
    ("compile", "--to lower -o /dev/null --report r.json --measured t.json", "--measured=t.json: needs --report FILE.html", 2),
    ("simulate", "--report r.html --measured none.json", 'cannot read the trace "none.json": No such file', 1),
    ("simulate", "--report r.html --measured /dev/zero", 'cannot read the trace "/dev/zero": it is no regular file', 1),
    ("compile", "--to propagate -o /dev/null --report r.html --measured t.json", "--measured=t.json: the model is not compiled far enough to be simulated", 1),
    ("simulate", "--report no/r.html", "no/r.html", 1),
])
def test_bad_input(tmp_path, command, options, said, status):
    h.assert_error(h.tessera(command, MLP, *options.split(), cwd=tmp_path), said, status=status)
    assert not list(tmp_path.iterdir())


def opened(folder):
    """The page as the browser has it, by a server that counts what it is asked for; other hosts have no address, and asking them is said on the console."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=folder)

        def log_request(self, *_):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        shown = h.run(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                      "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--enable-logging=stderr",
                      f"--user-data-dir={folder}/profile", "--window-size=1400,3000", f"--screenshot={folder}/page.png", "--virtual-time-budget=3000",
                      "--dump-dom", f"http://127.0.0.1:{server.server_port}/page.html")
        server.shutdown()
    return shown, asked


@pytest.mark.skipif(not CHROMIUM, reason="no chromium on this machine: the page is not opened (Debian: apt-get install chromium)")
@pytest.mark.parametrize("options", [(GPT, *TRAIN), PIPELINE, THOUSAND], ids=["1", "1f1b", "1024"])
def test_in_a_browser(tmp_path, options):
    """It draws all that its data has, says nothing on the console and asks for nothing."""
    data, _ = page_of(tmp_path, "simulate", *options)
    shown, asked = opened(tmp_path)
    assert "CONSOLE" not in shown.stderr, shown.stderr[-2000:]
    assert asked == ["/page.html"]
    parts = parts_of(shown.stdout)
    assert parts.heads == ["Timeline", "Memory", "Plan", "Communication", "Alternatives"]
    expected = []
    for ranks in data["timeline"]["classes"]:
        for lane in ranks["lanes"]:
            drawn = len(lane["bars"]) // 3 + len(lane["waits"]) // 5
            if lane["name"] == "compute":
                last = max(end for _, end, *_ in bars(lane["bars"], 3) + bars(lane["waits"], 5))
                drawn += last < data["timeline"]["ticks"]
            expected.append((f"rank {ranks['rank']}: {lane['name']}", drawn))
    assert [lane[:2] for lane in parts.lanes] == expected
    assert all(tabindex == "0" and label.startswith(name) for name, _, tabindex, label in parts.lanes)
    for ranks in data["timeline"]["classes"]:
        for lane in ranks["lanes"]:
            assert parts.texts[lane["name"]] >= 1
    for row in data["communication"]:
        assert parts.texts[row["kind"]] >= 1
    assert (tmp_path / "page.png").stat().st_size > 20_000


ACTIONS = """<script>
const lanes = [...document.querySelectorAll("[data-lane]")], said = [], detail = document.querySelector(".detail");
const press = (key, more) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true, ...more}));
const axis = () => document.querySelector(".axis canvas").toDataURL();
const say = (what, value) => said.push([what, value]);
window.requestAnimationFrame = draw => setTimeout(draw, 1); // a browser without a screen has few frames
const frame = () => new Promise(done => setTimeout(done, 20));
redraws.forEach(draw => draw());
setTimeout(async () => {
  isDue = false;
  const whole = axis();
  lanes[0].focus();
  press("Home"); say("first", detail.textContent);
  press("ArrowRight"); say("second", detail.textContent);
  press("+"); press("+"); await frame(); say("zoomed", axis() !== whole);
  press("0"); await frame(); say("whole again", axis() === whole);
  press("ArrowDown"); say("below", document.activeElement.dataset.lane);
  press("End"); say("last", detail.textContent);
  const canvas = lanes[0].querySelector("canvas"), box = canvas.getBoundingClientRect();
  const at = {clientX: box.left + box.width / 2, clientY: box.top + 5, bubbles: true, cancelable: true};
  canvas.dispatchEvent(new PointerEvent("pointermove", at)); say("pointed at", detail.textContent);
  const wheel = new WheelEvent("wheel", {...at, deltaY: -400});
  canvas.dispatchEvent(wheel); await frame(); say("wheel", wheel.defaultPrevented && axis() !== whole);
  document.querySelector("[data-tide]").focus();
  const before = document.querySelector(".under").textContent;
  press("ArrowRight"); say("memory", document.querySelector(".under").textContent !== before);
  document.body.append(Object.assign(document.createElement("pre"), {textContent: "SAID" + JSON.stringify(said)}));
}, 50);
</script>"""


@pytest.mark.skipif(not CHROMIUM, reason="no chromium on this machine: keys and wheel are not tried (Debian: apt-get install chromium)")
def test_keys_and_wheel(tmp_path):
    data, _ = page_of(tmp_path, "simulate", *PIPELINE)
    page = tmp_path / "page.html"
    page.write_text(page.read_text().replace("</html>", ACTIONS + "</html>"))
    shown, _ = opened(tmp_path)
    assert "CONSOLE" not in shown.stderr, shown.stderr[-2000:]
    said = dict(json.loads(re.search(r"SAID(\[.*?\])</pre>", shown.stdout, re.S)[1].replace("&gt;", ">").replace("&amp;", "&")))
    lanes = data["timeline"]["classes"][0]["lanes"]

    def node(lane, number):
        operation = data["timeline"]["operations"][bars(lane["bars"], 3)[number][2]]
        return f"{data['texts'][operation[0]] or '(no node)'} ({data['texts'][operation[1]]})"

    assert said["first"].startswith("rank 0: compute\n" + node(lanes[0], 0)) and " from 0 s to " in said["first"]
    assert node(lanes[0], 1) in said["second"]
    assert said["zoomed"] and said["whole again"] and said["wheel"] and said["memory"]
    assert said["below"] == "rank 0: " + lanes[1]["name"] and node(lanes[1], -1) in said["last"]
    assert said["pointed at"].startswith("rank 0: compute\n") and said["pointed at"] != said["last"]
