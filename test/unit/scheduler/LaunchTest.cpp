// What is launched: how a jobs file says it, what logs and executables say, and speeds that are corrected as
// they are measured.
#include "lib/Scheduler/launch/Executables.h"
#include "lib/Scheduler/launch/TrainLog.h"
#include "test/unit/scheduler/Jobs.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace tessera::scheduler;

namespace {

const char *kJob = "[[job]]\nname = 'gpt'\narrival = 0\nplaces = 2\nbatch = 8\nsamples = 1000\n";

std::variant<std::vector<Job>, Problem> read(const std::string &more, const FileReader &files = {}) {
  return readJobs(kJob + more, "j.toml", Cluster{{{"host", 4}}}, files);
}

std::string problem(const std::string &more, const FileReader &files = {}) {
  auto result = read(more, files);
  auto *found = std::get_if<Problem>(&result);
  return found ? found->text : "";
}

Job job(const std::string &more, const FileReader &files = {}) {
  return std::get<std::vector<Job>>(read(more, files)).at(0);
}

const std::string kTable = "throughput = {1 = 100.0, 2 = 190.0, 3 = 250.0}\n";

TEST(ReadProgram, ABatchThatGrowsWithThePlaces) {
  Job read = job(kTable + "largest_batch = 24\nexecutable = 'a'\n");
  EXPECT_EQ(read.ownBatch, Batch::Places);
  EXPECT_EQ(read.most(), 3);
  for (int places = 1; places <= 3; ++places)
    EXPECT_EQ(batchOn(read, places, Batch::AtLeastAsked), 8 * places);
  EXPECT_EQ(speeds(read, Cluster{{{"host", 4}}}, Batch::Asked), (std::vector<double>{0, 100, 190, 250}));
  EXPECT_EQ(job(kTable + "largest_batch = 16\nexecutable = 'a'\n").most(), 2);
}

TEST(ReadProgram, AnExecutableForEachSize) {
  Job read = job(kTable + "executable = {1 = 'a', 2 = 'b'}\narguments = ['--lr', '1']\nevery = 7\n");
  EXPECT_EQ(read.program.executables, (std::map<int, std::string>{{1, "a"}, {2, "b"}}));
  EXPECT_EQ(read.program.arguments, (std::vector<std::string>{"--lr", "1"}));
  EXPECT_EQ(read.program.every, 7);
  EXPECT_EQ(read.throughput, (std::map<int, double>{{1, 100}, {2, 190}}));
  EXPECT_EQ(read.most(), 2);
  EXPECT_FALSE(read.program.promised);
  EXPECT_EQ(batchOn(read, 1, Batch::Places), 16);
}

TEST(ReadProgram, InBetweenAJobIsAsFastAsOnFewer) {
  Job read =
      job("throughput = {1 = 100.0, 2 = 190.0, 4 = 250.0}\nexecutable = {1 = 'a', 2 = 'b', 4 = 'c'}\n");
  std::vector<double> speed = speeds(read, Cluster{{{"host", 4}}}, Batch::AtLeastAsked);
  EXPECT_EQ(speed, (std::vector<double>{0, 100, 190, 190, 250}));
  EXPECT_EQ(read.usable(3), 2);
  EXPECT_EQ(read.usable(0), 0);
  EXPECT_EQ(nextFaster(speed, 2, 4), 4);
  EXPECT_EQ(nextFaster(speed, 2, 3), 0);
  EXPECT_EQ(withoutIdle(speed, 3, 1), 2);
  EXPECT_EQ(withoutIdle(speed, 4, 1), 4);
}

TEST(ReadProgram, WithoutATableTheExecutablesAreAsked) {
  Job read = job("executable = {1 = 'a', 2 = 'b'}\n");
  EXPECT_TRUE(read.program.promised);
  EXPECT_EQ(read.throughput.size(), 2u);
}

TEST(ReadProgram, OneExecutableIsForAllOfTheTable) {
  Job read = job(kTable + "executable = 'gpt'\n");
  EXPECT_TRUE(read.program.isOne);
  EXPECT_EQ(read.program.executables, (std::map<int, std::string>{{1, "gpt"}, {2, "gpt"}, {3, "gpt"}}));
  EXPECT_EQ(read.throughput.size(), 3u);
}

TEST(ReadProgram, Problems) {
  EXPECT_EQ(problem(kTable + "executable = 3\n"),
            "j.toml:8:14: \"executable\" has to be what `tessera compile` wrote, or one for each number of "
            "places, such as {1 = \"gpt1\", 2 = \"gpt2\"}");
  EXPECT_EQ(problem(kTable + "executable = {0 = 'a'}\n"), "j.toml:8:15: \"0\" is no number of places");
  EXPECT_EQ(problem(kTable + "executable = {2 = 4}\n"),
            "j.toml:8:19: the executable for 2 places has to be the path of a program");
  EXPECT_EQ(problem(kTable + "executable = {1 = 'a'}\n"),
            "j.toml:8:14: there is no executable for the 2 places that the job asks for");
  EXPECT_EQ(problem(kTable + "executable = {2 = 'a', 4 = 'b'}\n"),
            "j.toml:7:14: \"throughput\" has no entry for the 4 places that there is an executable for");
  EXPECT_EQ(problem(kTable + "arguments = ['a']\n"),
            "j.toml:8:13: \"arguments\" goes with an \"executable\"");
  EXPECT_EQ(
      problem(kTable + "executable = {2 = 'a'}\nlargest_batch = 64\n"),
      "j.toml:9:17: \"largest_batch\" goes with one executable for all places, whose batch grows with them");
  EXPECT_EQ(problem(kTable + "executable = {2 = 'a'}\narguments = 'x'\n"),
            "j.toml:9:13: \"arguments\" has to be a list of texts, such as [\"--tokens\", \"a.bin\"]");
  EXPECT_EQ(problem(kTable + "executable = {2 = 'a'}\narguments = [1]\n"),
            "j.toml:9:14: each of the \"arguments\" has to be a text");
  EXPECT_EQ(problem(kTable + "executable = {2 = 'a'}\narguments = ['--steps=4']\n"),
            "j.toml:9:14: the schedule itself gives --steps to what it launches");
  auto named =
      readJobs("[[job]]\nname = '../x'\narrival = 0\nplaces = 1\nbatch = 1\nsamples = 1\nexecutable = 'a'\n",
               "j.toml", Cluster{{{"host", 1}}});
  EXPECT_EQ(
      std::get<Problem>(named).text,
      "j.toml:2:8: a job that is launched has a folder of its name, which has to be of letters, digits, "
      "'.', '_' and '-', at most 100");
}

std::optional<std::string> planned(const std::string &path) {
  if (path != "p.json")
    return std::nullopt;
  return R"({"plans": [{"ranks": 1, "samples_per_second": 80}, {"ranks": 2, "samples_per_second": 150.5}]})";
}

TEST(ReadThroughput, OfTheCompiler) {
  Job read = job("throughput = 'p.json'\n", planned);
  EXPECT_EQ(read.throughput, (std::map<int, double>{{1, 80}, {2, 150.5}}));
  EXPECT_EQ(read.ownBatch, Batch::Asked);
  EXPECT_EQ(read.most(), 2);
  EXPECT_EQ(problem("throughput = 'q.json'\n", planned),
            "j.toml:7:14: the throughput table \"q.json\" cannot be read");
  EXPECT_EQ(problem("throughput = 'p.json'\n"),
            "j.toml:7:14: the throughput table \"p.json\" cannot be read");
  EXPECT_EQ(problem("throughput = 'x'\n", [](auto &) { return "{"; }),
            "j.toml:7:14: the throughput table \"x\": it is not JSON");
  EXPECT_EQ(problem("throughput = 'x'\n", [](auto &) { return R"({"plans": [{"ranks": 1}]})"; }),
            "j.toml:7:14: the throughput table \"x\": it has no \"plans\" with \"ranks\" and "
            "\"samples_per_second\", as `tessera plan --auto --ranks 1,2 --json` writes them");
  EXPECT_EQ(problem("throughput = 'x'\n",
                    [](auto &) { return R"({"plans": [{"ranks": 1, "samples_per_second": -1}]})"; }),
            "j.toml:7:14: the throughput table \"x\": plan 1 has figures that no run has");
  EXPECT_EQ(
      problem("throughput = 'x'\n", [](auto &) { return R"([{"ranks": 1, "samples_per_second": 5}])"; }),
      "j.toml:7:14: \"throughput\" has no entry for the 2 places that the job asks for");
}

class TrainLogTest : public testing::Test {
protected:
  std::string folder = testing::TempDir() + "train-log-" + std::to_string(::getpid());
  std::string path = folder + "/log.jsonl";
  TrainLogTest() { std::filesystem::create_directories(folder); }
  ~TrainLogTest() override { std::filesystem::remove_all(folder); }
  void append(const std::string &text) { std::ofstream(path, std::ios::app) << text; }
  void steps(int from, int to) {
    for (int step = from; step <= to; ++step)
      append("{\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(10 - step) +
             ",\"seconds\":0.5}\n");
  }
};

TEST_F(TrainLogTest, IsFollowed) {
  TrainLog log(path, 1);
  EXPECT_FALSE(log.read());
  steps(1, 2);
  append("{\"step\":3,\"lo");
  EXPECT_TRUE(log.read());
  EXPECT_EQ(log.steps(), 2);
  EXPECT_FALSE(log.secondsOfStep());
  append("ss\":7,\"seconds\":0.25}\nnonsense\n{\"step\":-4}\n[]\n");
  EXPECT_TRUE(log.read());
  EXPECT_FALSE(log.read());
  EXPECT_EQ(log.steps(), 3);
  EXPECT_EQ(log.loss(0, 3), 8);
  EXPECT_FALSE(log.loss(0, 4));
  EXPECT_EQ(log.secondsOfStep(), 0.5);
}

TEST_F(TrainLogTest, CountsSamples) {
  TrainLog log(path, 8);
  steps(1, 1); // of the batch, where the line does not say
  for (int step = 2; step <= 4; ++step)
    append("{\"step\":" + std::to_string(step) + ",\"loss\":" + std::to_string(step) +
           ",\"samples\":" + std::to_string(8 + 2 * (step - 1)) + "}\n");
  EXPECT_TRUE(log.read());
  EXPECT_EQ(log.samples(), 14);
  EXPECT_EQ(log.loss(8, 12), 2.5);
  EXPECT_EQ(log.loss(8, 13), 2.5);
  EXPECT_EQ(log.loss(0, 10), 5.5);
  EXPECT_FALSE(log.loss(8, 9));
  EXPECT_FALSE(log.loss(8, 15));
  EXPECT_EQ(log.lastLoss(), 4);
  log.goBackTo(2);
  EXPECT_EQ(log.samples(), 10);
  log.goBackTo(9);
  EXPECT_EQ(log.samples(), 72);
}

TEST_F(TrainLogTest, GoesBackToACheckpoint) {
  TrainLog log(path, 1);
  steps(1, 5);
  log.goBackTo(3);
  EXPECT_EQ(log.steps(), 3);
  EXPECT_EQ(log.stepsSince(), 0);
  steps(4, 4);
  EXPECT_TRUE(log.read());
  EXPECT_EQ(log.steps(), 4);
  EXPECT_EQ(log.stepsSince(), 1);
  EXPECT_EQ(log.loss(0, 4), 7.5);
  log.goBackTo(9); // of another log
  EXPECT_EQ(log.steps(), 9);
  EXPECT_FALSE(log.loss(0, 4));
  log.goBackTo(0);
  EXPECT_EQ(log.steps(), 0);
  // The file is the run's.
  log.begin(0);
  EXPECT_EQ(log.steps(), 4);
}

TEST_F(TrainLogTest, TheNewestCheckpoint) {
  EXPECT_EQ(newestCheckpoint(folder), 0);
  EXPECT_EQ(newestCheckpoint(folder + "/none"), 0);
  for (const char *name : {"step-5.safetensors", "step-12.safetensors", "step-13.safetensors.part", "step-x"})
    std::ofstream(folder + "/" + name);
  EXPECT_EQ(newestCheckpoint(folder), 12);
  for (const char *name : {"step-000000014", "step-000000015.partial"})
    std::filesystem::create_directory(folder + "/" + name);
  EXPECT_EQ(newestCheckpoint(folder), 14);
}

TEST_F(TrainLogTest, IsReadAgainWhenItIsCut) {
  TrainLog log(path, 1);
  steps(1, 5);
  EXPECT_TRUE(log.read());
  std::filesystem::remove(path);
  steps(1, 2);
  EXPECT_TRUE(log.read());
  EXPECT_EQ(log.steps(), 2);
  // A run that goes on after step 1, and has written more than was there when it is looked at again.
  std::filesystem::remove(path);
  steps(1, 1);
  append("{\"step\":2,\"loss\":1,\"seconds\":0.25}\n{\"step\":3,\"loss\":1,\"seconds\":0.25}\n");
  EXPECT_TRUE(log.read());
  EXPECT_EQ(log.steps(), 3);
  EXPECT_EQ(log.loss(1, 3), 1);
}

// A runner whose jobs are half as fast as their tables say on two places; times pass as the loop asks.
class HalfAsFast : public Runner {
public:
  explicit HalfAsFast(const std::vector<Job> &jobs) : jobs(jobs), held(jobs.size()), done(jobs.size()) {}
  double wait(double until) override {
    double to = std::min(until, now + 1);
    for (size_t job = 0; job < jobs.size(); ++job)
      done[job] += rate(static_cast<int>(job)) * (to - now);
    return now = to;
  }
  void change(int job, const std::vector<int> &places, bool) override {
    held[job] = static_cast<int>(places.size());
  }
  Progress progress(int job) const override {
    return {done[job], 0, 0, rate(job), done[job] >= jobs[job].samples, ""};
  }
  double due(int, double) const override { return kNever; }
  void addLosses(int, int, std::vector<double> &) const override {}

private:
  double rate(int job) const { return jobs[job].throughputAt(held[job]) * (held[job] == 2 ? 0.5 : 1); }
  const std::vector<Job> &jobs;
  std::vector<int> held;
  std::vector<double> done;
  double now = 0;
};

// Gives its only job two places and looks at what it is told of its speed.
class Looks : public Policy {
public:
  Assignment decide(const Situation &situation) override {
    seen = *situation.jobs[0]->speed;
    Assignment wanted(situation.running.size(), kIdle);
    wanted[0] = wanted[1] = situation.jobs[0]->index;
    return wanted;
  }
  double wake(const Situation &situation) override { return situation.now + 1; }
  std::vector<double> seen;
};

TEST(Engine, MeasuredSpeedsCorrectTheTable) {
  std::vector<Job> jobs = {elasticJob("a", 0, 4, 5)};
  Cluster cluster = freeCluster(4);
  HalfAsFast runner(jobs);
  Looks policy;
  Result result = schedule(jobs, cluster, policy, runner);
  EXPECT_DOUBLE_EQ(result.jobs[0].end, 5);
  // Where it was not measured the table is off by as much.
  std::vector<double> given = speeds(jobs[0], cluster, Batch::Asked);
  ASSERT_EQ(policy.seen.size(), given.size());
  for (size_t i = 1; i < given.size(); ++i)
    EXPECT_DOUBLE_EQ(policy.seen[i], given[i] / 2) << i;
}

TEST(Engine, AMeanIsOverTheJobsThatAreDone) {
  std::vector<Job> jobs = {rigidJob("a", 0, 1, 5), rigidJob("b", 0, 1, 5)};
  Result result = runPolicy("fifo", jobs, freeCluster(2));
  EXPECT_DOUBLE_EQ(result.meanCompletion(jobs), 5);
  result.jobs[0].error = "gone";
  result.jobs[1].end = 7;
  EXPECT_DOUBLE_EQ(result.meanCompletion(jobs), 7);
}

} // namespace
