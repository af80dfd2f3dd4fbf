"""tessera schedule: simulated clusters, what it writes, and how it refuses what is wrong. Files' own mistakes are in test/unit/scheduler."""
import json
import re

import pytest

import harness as h

CLUSTER = '[[host]]\nname = "a"\nplaces = 4\n'
JOB = '''[[job]]
name = "%s"
arrival = %d
places = 4
batch = 8
throughput = {1 = 100.0, 2 = 190.0, 4 = 340.0}
samples = 34000
'''


@pytest.fixture
def files(tmp_path):
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    (tmp_path / "jobs.toml").write_text(JOB % ("first", 0) + JOB % ("second", 10))
    return tmp_path / "jobs.toml", "--cluster", tmp_path / "cluster.toml"


def schedule(*arguments):
    return h.tessera("schedule", *arguments)


def test_a_jobs_file(tmp_path, files):
    """Each job takes 10 s to start and 100 s to run; the second waits for the first."""
    result = schedule(*files, "--simulate", "--policy", "fifo", "--json", tmp_path / "r.json", "--report", tmp_path / "r.html")
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert [job["end"] for job in report["jobs"]] == [110, 220]
    assert report["mean_completion"] == 160
    assert report["place_seconds"] == {"work": 800, "idle": 0, "resize": 80}
    assert report["decisions"]["max_seconds"] > 0
    assert "160.0" in result.stdout
    page = (tmp_path / "r.html").read_text()
    data = json.loads(re.search(r'<script type="application/json" id="report">(.*?)</script>', page, re.S)[1])
    assert [run["policy"] for run in data["runs"]] == ["fifo"] and len(data["runs"][0]["changes"]) == 4
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org)", page), "the page needs no network"


def test_a_job_stands_still_for_its_own_time(tmp_path, files):
    """Each runs for 100 s; the first says how long it takes to start, the second how large it is: half-way between two that were measured."""
    (tmp_path / "cluster.toml").write_text(CLUSTER + "".join(
        f"[[costs.measured]]\nparameters = {parameters}\nresize = 1\nrestart = {restart}\n" for parameters, restart in ((20e6, 4), (40e6, 8))))
    (tmp_path / "jobs.toml").write_text(JOB % ("first", 0) + "restart = 2.5\n" + JOB % ("second", 10) + "parameters = 30e6\n")
    assert schedule(*files, "--simulate", "--policy", "fifo", "--json", tmp_path / "r.json").returncode == 0
    assert [job["end"] for job in json.loads((tmp_path / "r.json").read_text())["jobs"]] == [102.5, 208.5]


def test_all_policies_are_compared(tmp_path, files):
    result = schedule(*files, "--simulate", "--json", tmp_path / "r.json")
    assert result.returncode == 0, result.stderr
    means = json.loads((tmp_path / "r.json").read_text())["means"]
    assert [mean["policy"] for mean in means] == ["fifo", "fifo-backfill", "drf", "tiresias", "optimus", "srtf", "ones-published", "ones"]
    # The second cannot do better than wait: two that share, as they do under drf, both stand still for a restart.
    by_policy = {mean["policy"]: mean["mean_completion"] for mean in means}
    assert by_policy["ones"] == by_policy["srtf"] == 160 < by_policy["drf"]


def test_the_trace(tmp_path):
    """The same seed gives the same file, but for the time that decisions took."""
    def run(seed, *options):
        arguments = ("--simulate", "--trace", "ones", "--seed", str(seed), "--gap", "45", "--policy", "tiresias")
        assert schedule(*arguments, *options, "--json", tmp_path / "r.json").returncode == 0
        report = json.loads((tmp_path / "r.json").read_text())
        del report["decisions"]["max_seconds"]
        return report

    first = run(1)
    assert len(first["jobs"]) == 50
    assert first == run(1)
    assert first["mean_completion"] != run(2)["mean_completion"]
    # Jobs stand still as was measured with models of their sizes; a cluster file that does not say so has the same for all.
    (tmp_path / "cluster.toml").write_text("".join(f'[[host]]\nname = "{i}"\nplaces = 4\n' for i in range(16)))
    assert first["mean_completion"] < run(1, "--cluster", tmp_path / "cluster.toml")["mean_completion"]
    spent = first["place_seconds"]
    assert sum(spent.values()) == pytest.approx(64 * first["span"], rel=1e-9)


def test_parts_of_ones_can_be_left_out(tmp_path, files):
    def mean(*options):
        assert schedule(*files, "--simulate", "--policy", "ones", *options, "--json", tmp_path / "r.json").returncode == 0
        return json.loads((tmp_path / "r.json").read_text())["mean_completion"]

    assert mean("--without", "table,kinds,batch,evolution,forecast") > mean()


def test_hostile_names_stay_in_the_pages_data(tmp_path, files):
    (tmp_path / "jobs.toml").write_text(JOB % ("</script><b>", 0))
    assert schedule(*files, "--simulate", "--policy", "fifo", "--report", tmp_path / "r.html").returncode == 0
    page = (tmp_path / "r.html").read_text()
    assert "</script><b>" not in page and "\\u003c/script>\\u003cb>" in page


# ---- what is wrong

TRACE = ("--simulate", "--trace", "ones")
USAGE = [
    ((), "no jobs given: tessera schedule JOBS.toml --cluster FILE.toml, or --trace ones"),
    (("jobs.toml", *TRACE), "a jobs file and --trace exclude each other"),
    (("jobs.toml", "--simulate"), "no cluster given: add --cluster FILE.toml"),
    (("jobs.toml", "--seed", "1"), "no cluster given"),
    (("jobs.toml", "--cluster", "c.toml", "--seed", "1"), "--seed goes with --trace ones"),
    (("--simulate", "--trace", "philly"), "--trace=philly: expected ones, philly:FILE or alibaba:FILE"),
    (("--simulate", "--trace", "alibaba:t.csv"), "no cluster given: add --cluster FILE.toml"),
    (("--simulate", "--trace", "alibaba:t.csv", "--cluster", "c.toml", "--gap", "3"), "--gap goes with --trace ones"),
    ((*TRACE, "--first", "3"), "--first goes with a trace that is a file"),
    ((*TRACE, "--policy", "tiresas"), "--policy=tiresas: there is no such policy; the nearest is tiresias"),
    ((*TRACE, "--seed", "-1"), "--seed=-1: expected a whole number of at least 0"),
    ((*TRACE, "--gap", "soon"), "--gap=soon: expected a number from 0 to 1000000"),
    ((*TRACE, "--gap", "-1"), "--gap=-1: expected a number from 0 to"),
    ((*TRACE, "--scatter", "nan"), "--scatter=nan: expected a number from 0 to 2"),
    ((*TRACE, "--without", "luck"), "--without=luck: expected table, forecast, kinds, batch or evolution"),
]


@pytest.mark.parametrize("arguments, words", USAGE, ids=[words for _, words in USAGE])
def test_wrong_usage(arguments, words):
    h.assert_error(schedule(*arguments), words, status=2)


def test_files_that_are_wrong(tmp_path, files):
    h.assert_error(schedule(tmp_path / "none.toml", *files[1:], "--simulate"), "cannot read", "none.toml", "No such file or directory")
    h.assert_error(schedule(*files[:2], tmp_path / "none.toml", "--simulate"), "cannot read", "none.toml")
    (tmp_path / "jobs.toml").write_text(JOB % ("first", 0) + JOB % ("first", 10))
    h.assert_error(schedule(*files, "--simulate"), "jobs.toml:8:1:", "is in line 1 already")
    (tmp_path / "jobs.toml").write_text(JOB % ("first", 0) + "restart = -1\n")
    h.assert_error(schedule(*files, "--simulate"), "jobs.toml:8:11:", '"restart" has to be a number from 0 to 1e+09, and is -1')
    (tmp_path / "cluster.toml").write_text(CLUSTER + "[[costs.measured]]\nparameters = 5\nresize = 1\nrestart = 1\n" * 2)
    h.assert_error(schedule(*files, "--simulate"), "cluster.toml:9:14:", 'in the order of "parameters"')
    (tmp_path / "cluster.toml").write_text("[costs]\nresize = 1\n")
    h.assert_error(schedule(*files, "--simulate"), "cluster.toml:1:1:", "the cluster has no places")


def test_a_trace_that_is_a_file(tmp_path, files):
    """Ten jobs that ask for 2 of 4 places, 100 s each, all at once: two at a time, and 10 s to start."""
    trace = tmp_path / "tasks.csv"
    trace.write_text("".join(f"job{i},worker,2.0,Terminated,50.0,150.0,600.0,29.3,100.0,T4\n" for i in range(10)))
    arguments = ("--simulate", "--trace", f"alibaba:{trace}", *files[1:], "--policy", "fifo", "--json", tmp_path / "r.json")
    assert schedule(*arguments).returncode == 0
    assert [job["end"] for job in json.loads((tmp_path / "r.json").read_text())["jobs"]] == pytest.approx([110 * (i // 2 + 1) for i in range(10)])
    assert schedule(*arguments, "--first", "3").returncode == 0
    assert len(json.loads((tmp_path / "r.json").read_text())["jobs"]) == 3
    h.assert_error(schedule(*arguments, "--first", "0"), "--first=0: expected a whole number of at least 1", status=2)
    trace.write_text("job,worker\n")
    h.assert_error(schedule(*arguments), "tasks.csv:1:1:", "a row of pai_task_table has 10 columns")
    h.assert_error(schedule("--simulate", "--trace", f"philly:{trace}", *files[1:]), "tasks.csv:1:", "this is not JSON")
    h.assert_error(schedule("--simulate", "--trace", "philly:none.json", *files[1:]), "cannot read", "none.json")


def test_a_trace_that_does_not_fit(tmp_path, files):
    h.assert_error(schedule(*TRACE, *files[1:]), "--trace=ones has jobs that ask for ", "places, and the cluster has 4")


def test_a_file_that_cannot_be_written(tmp_path, files):
    h.assert_error(schedule(*files, "--simulate", "--policy", "fifo", "--json", tmp_path / "no" / "r.json"), "cannot write", "r.json")
