// Jobs files and cluster files: what is right in them, and how what is wrong is told.
#include "lib/Scheduler/ReadFiles.h"
#include <gtest/gtest.h>

using namespace tessera::scheduler;

namespace {

const char *kCluster = "[[host]]\nname = 'a'\nplaces = 4\n";
const char *kJob = "[[job]]\nname = 'gpt'\narrival = 5\nplaces = 2\nbatch = 8\nlargest_batch = 64\n"
                   "throughput = {1 = 100.0, 2 = 190}\nsamples = 1000\n";

std::string clusterProblem(const std::string &text) {
  auto read = readCluster(text, "c.toml");
  auto *problem = std::get_if<Problem>(&read);
  return problem ? problem->text : "";
}

std::string jobsProblem(const std::string &text) {
  auto read = readJobs(text, "j.toml", std::get<Cluster>(readCluster(kCluster, "c.toml")));
  auto *problem = std::get_if<Problem>(&read);
  return problem ? problem->text : "";
}

// kJob with one line replaced, or one more.
std::string with(const std::string &key, const std::string &line) {
  std::string text = kJob;
  size_t begin = text.find("\n" + key + " = ");
  if (begin == std::string::npos)
    return text + line + "\n";
  return text.substr(0, begin + 1) + line + text.substr(text.find('\n', begin + 1));
}

TEST(ReadFiles, ACluster) {
  auto read =
      readCluster(std::string(kCluster) + "[[host]]\nname = 'b'\nplaces = 2\n[links]\nspread = 0.9\n[costs]\n"
                                          "resize = 2\nrestart = 30.5\nlost_per_doubling = 0.05\n",
                  "c.toml");
  auto &cluster = std::get<Cluster>(read);
  EXPECT_EQ(cluster.places(), 6);
  EXPECT_EQ(cluster.hostOfPlace(), (std::vector<int>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(cluster.spread, 0.9);
  EXPECT_EQ(cluster.pauses.resize, 2);
  EXPECT_EQ(cluster.pauses.restart, 30.5);
  EXPECT_TRUE(cluster.measured.empty());
  EXPECT_EQ(cluster.lostPerDoubling, 0.05);
}

TEST(ReadFiles, AJob) {
  auto read = readJobs(kJob, "j.toml", std::get<Cluster>(readCluster(kCluster, "c.toml")));
  const Job &job = std::get<std::vector<Job>>(read).at(0);
  EXPECT_EQ(job.name, "gpt");
  EXPECT_EQ(job.kind, "gpt");
  EXPECT_EQ(job.most(), 2);
  EXPECT_EQ(job.throughputAt(2), 190);
  EXPECT_EQ(job.dataSize, 1000);
  EXPECT_EQ(job.told(), 1000);
}

TEST(ReadFiles, WhatAPauseTakes) {
  auto read = readCluster(std::string(kCluster) +
                              "[costs]\nresize = 2\n"
                              "[[costs.measured]]\nparameters = 10e6\nresize = 0.5\nrestart = 3\n"
                              "[[costs.measured]]\nparameters = 100e6\nresize = 2.5\nrestart = 12\n",
                          "c.toml");
  auto &cluster = std::get<Cluster>(read);
  ASSERT_EQ(cluster.measured.size(), 2u);
  EXPECT_EQ(cluster.measured[1].parameters, 100e6);
  EXPECT_EQ(cluster.measured[1].pauses.resize, 2.5);
  EXPECT_EQ(cluster.measured[1].pauses.restart, 12);
  auto jobs = readJobs(with("x", "parameters = 55e6\nresize = 0"), "j.toml", cluster);
  const Job &job = std::get<std::vector<Job>>(jobs).at(0);
  EXPECT_EQ(job.parameters, 55e6);
  EXPECT_EQ(job.resizeSeconds, 0);
  EXPECT_FALSE(job.restartSeconds);
  EXPECT_EQ(cluster.pausesOf(job).resize, 0);
  EXPECT_DOUBLE_EQ(cluster.pausesOf(job).restart, 7.5);
}

TEST(ReadFiles, AJobThatEndsAtALossDoesNotTellItsSamples) {
  auto read = readJobs(with("x", "first_loss = 6\ntarget_loss = 2"), "j.toml",
                       std::get<Cluster>(readCluster(kCluster, "c.toml")));
  const Job &job = std::get<std::vector<Job>>(read).at(0);
  EXPECT_FALSE(job.told());
  EXPECT_NEAR(job.loss->at(0), 6, 1e-9);
  EXPECT_NEAR(job.loss->at(1), 2, 1e-9);
}

TEST(ReadFiles, ProblemsOfClusters) {
  EXPECT_EQ(clusterProblem(""),
            "c.toml:1:1: the cluster has no places: add a [[host]] with a name and places");
  EXPECT_EQ(clusterProblem("[[host]]\nname = 'a'\n"), "c.toml:1:1: the key \"places\" is missing");
  EXPECT_EQ(clusterProblem("[[host]]\nname = ''\nplaces = 1\n"),
            "c.toml:2:8: \"name\" has to be a text that is not empty");
  EXPECT_EQ(clusterProblem("[[host]]\nname = 'a'\nplaces = 0\n"),
            "c.toml:3:10: \"places\" has to be a whole number from 1 to 65536, and is 0");
  EXPECT_EQ(clusterProblem("[[host]]\nname = 'a'\nplaces = 'four'\n"),
            "c.toml:3:10: \"places\" has to be a whole number from 1 to 65536");
  EXPECT_EQ(clusterProblem(std::string(kCluster) + kCluster), "c.toml:4:1: host \"a\" is in line 1 already");
  EXPECT_EQ(clusterProblem("[[host]]\nname = 'a'\nplaces = 40000\n[[host]]\nname = 'b'\nplaces = 40000\n"),
            "c.toml:1:1: the cluster has more than 65536 places");
  EXPECT_EQ(clusterProblem("[host]\nname = 'a'\nplaces = 4\n"),
            "c.toml:1:1: \"host\" has to be written as [[host]], once for each");
  EXPECT_EQ(clusterProblem("host = [1]\n"), "c.toml:1:9: each \"host\" has to be a table");
  EXPECT_EQ(clusterProblem(std::string("links = 3\n") + kCluster),
            "c.toml:1:9: \"links\" has to be written as [links]");
  EXPECT_EQ(clusterProblem(std::string(kCluster) + "[cots]\nresize = 1\n"),
            "c.toml:4:2: the cluster file has no key \"cots\"; the nearest is \"costs\"");
  EXPECT_EQ(clusterProblem(std::string(kCluster) + "[costs]\nresize = -1\n"),
            "c.toml:5:10: \"resize\" has to be a number from 0 to 1e+09, and is -1");
  EXPECT_EQ(clusterProblem(std::string(kCluster) + "[costs]\nrestart = nan\n"),
            "c.toml:5:11: \"restart\" has to be a number from 0 to 1e+09, and is nan");
  const std::string measured = std::string(kCluster) + "[[costs.measured]]\nparameters = 2e6\nresize = 1\n";
  EXPECT_EQ(clusterProblem(measured), "c.toml:4:1: the key \"restart\" is missing");
  EXPECT_EQ(clusterProblem(measured + "restart = -2\n"),
            "c.toml:7:11: \"restart\" has to be a number from 0 to 1e+09, and is -2");
  EXPECT_EQ(clusterProblem(measured + "restarts = 2\n"),
            "c.toml:7:1: [[costs.measured]] has no key \"restarts\"; the nearest is \"restart\"");
  EXPECT_EQ(clusterProblem(measured + "restart = 1\n[[costs.measured]]\nparameters = 2e6\nresize = 1\n"
                                      "restart = 1\n"),
            "c.toml:9:14: what was measured has to be in the order of \"parameters\", each number once");
  EXPECT_EQ(clusterProblem(std::string(kCluster) + "[costs]\nmeasured = 3\n"),
            "c.toml:5:12: \"measured\" has to be written as [[costs.measured]], once for each");
}

TEST(ReadFiles, ProblemsOfJobs) {
  EXPECT_EQ(jobsProblem(""), "j.toml:1:1: there is no [[job]]");
  EXPECT_EQ(jobsProblem("[[job]\n").substr(0, 9), "j.toml:1:");
  EXPECT_EQ(jobsProblem(with("places", "places = 8")).substr(0, 90),
            "j.toml:7:14: \"throughput\" has no entry for the 8 places that the job asks for");
  EXPECT_EQ(
      jobsProblem(
          "[[job]]\nname = 'gpt'\narrival = 5\nplaces = 8\nbatch = 8\nthroughput = {8 = 1}\nsamples = 1\n"),
      "j.toml:4:10: the job can never run: it asks for 8 places, and the cluster has 4");
  EXPECT_EQ(jobsProblem(std::string(kJob) + kJob), "j.toml:9:1: job \"gpt\" is in line 1 already");
  EXPECT_EQ(jobsProblem(with("arrival", "arrival = -5")),
            "j.toml:3:11: \"arrival\" has to be a number from 0 to 1e+09, and is -5");
  EXPECT_EQ(
      jobsProblem(std::string(kJob) + "[[job]]\nname = 'bert'\narrival = 4\nplaces = 2\nbatch = 8\n"
                                      "throughput = {2 = 190}\nsamples = 1000\n"),
      "j.toml:11:11: jobs have to be in the order of their arrival, and job \"gpt\" before this one arrives "
      "later");
  EXPECT_EQ(jobsProblem(with("largest_batch", "largest_batch = 15")),
            "j.toml:6:17: \"largest_batch\" is less than 2 places with a batch of 8 each");
  EXPECT_EQ(jobsProblem(with("throughput", "throughput = 100.0")),
            "j.toml:7:14: \"throughput\" has to be a table from places to samples/s, such as {1 = 100.0, 2 = "
            "190.0}, or the name of a file that `tessera plan` wrote");
  EXPECT_EQ(jobsProblem(with("throughput", "throughput = {one = 100.0}")),
            "j.toml:7:15: \"one\" is no number of places");
  EXPECT_EQ(jobsProblem(with("throughput", "throughput = {2 = 0.0}")),
            "j.toml:7:19: \"2\" has to be a number from 0.001 to 1e+15, and is 0");
  EXPECT_EQ(jobsProblem(with("largest_batches", "largest_batches = 8")),
            "j.toml:9:1: [[job]] has no key \"largest_batches\"; the nearest is \"largest_batch\"");

  EXPECT_EQ(jobsProblem(with("samples", "samples = 1e6\ndata_size = 1")),
            "j.toml:9:13: \"samples\" are more than 100000 times \"data_size\"");
  EXPECT_EQ(jobsProblem(with("samples", "samples = 1e14")),
            "j.toml:8:11: on the places that it asks for the job would run for more than 1e+09 seconds");
  EXPECT_EQ(jobsProblem(with("first_loss", "first_loss = 3")),
            "j.toml:9:14: \"first_loss\" and \"target_loss\" go together: the loss that the job begins and "
            "ends at");
  EXPECT_EQ(jobsProblem(with("first_loss", "first_loss = 3\ntarget_loss = 3")),
            "j.toml:10:15: \"target_loss\" has to be below \"first_loss\"");
  EXPECT_EQ(jobsProblem(with("parameters", "parameters = 0")),
            "j.toml:9:14: \"parameters\" has to be a number from 1 to 1e+15, and is 0");
  EXPECT_EQ(jobsProblem(with("resize", "resize = -1")),
            "j.toml:9:10: \"resize\" has to be a number from 0 to 1e+09, and is -1");
  EXPECT_EQ(jobsProblem(with("restart", "restart = 'long'")),
            "j.toml:9:11: \"restart\" has to be a number from 0 to 1e+09");
}

} // namespace
