// Public traces: excerpts written by hand in the formats of their repositories.
#include "lib/Scheduler/TraceFiles.h"
#include <gtest/gtest.h>

using namespace tessera::scheduler;

namespace {

const Cluster kCluster = {{{"host", 16}}};

// Philly's cluster_job_log: one that passed after a first attempt on fewer GPUs, one that was killed, one
// that passed without a recorded end, one that passed before the first.
const char *kPhilly = R"([
{"status": "Pass", "vc": "v1", "jobid": "application_2", "user": "u1",
   "submitted_time": "2017-10-07 01:12:00",
 "attempts": [
  {"start_time": "2017-10-07 01:13:00", "end_time": "2017-10-07 01:14:00", "detail": [{"ip": "m1",
   "gpus": ["gpu0"]}]},
  {"start_time": "2017-10-07 23:59:30", "end_time": "2017-10-08 00:01:30",
   "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu5", "gpu6"]}]},
  {"start_time": "2017-10-08 01:00:00", "end_time": null, "detail": []}]},
{"status": "Killed", "vc": "v1", "jobid": "application_3", "user": "u1",
   "submitted_time": "2017-10-07 01:13:00",
 "attempts": [{"start_time": "2017-10-07 01:13:00", "end_time": "2017-10-07 01:14:00",
   "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
{"status": "Pass", "vc": "v1", "jobid": "application_4", "user": "u1",
   "submitted_time": "2017-10-07 01:13:00",
 "attempts": [{"start_time": "2017-10-07 01:13:00", "end_time": "None", "detail": [{"ip": "m1",
   "gpus": ["gpu0"]}]}]},
{"status": "Pass", "vc": "v1", "jobid": "application_1", "user": "u2",
   "submitted_time": "2017-10-07 01:11:30",
 "attempts": [{"start_time": "2017-10-07 01:11:30", "end_time": "2017-10-07 01:11:40",
   "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]}
])";

const char *kAlibaba =
    "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    "b,ps,2.0,Terminated,1000.0,1600.0,600.0,29.3,,\n"
    "b,worker,5.0,Terminated,1010.0,1610.0,600.0,29.3,50.0,MISC\n"
    "a,tensorflow,1.0,Terminated,900.0,1000.0,600.0,29.3,100.0,T4\r\n"
    "failed,worker,1.0,Failed,900.0,1000.0,600.0,29.3,100.0,T4\n"
    "unfinished,worker,1.0,Terminated,900.0,,600.0,29.3,100.0,T4\n"
    "cpu,worker,1.0,Terminated,900.0,1000.0,600.0,29.3,0.0,\n";

std::vector<Job> fitted(TraceJobs read, size_t most = 100) {
  return std::get<std::vector<Job>>(
      fitTrace(std::get<std::vector<Job>>(std::move(read)), most, kCluster, "t"));
}

std::string problemOf(const TraceJobs &read) {
  auto *problem = std::get_if<Problem>(&read);
  return problem ? problem->text : "";
}

TEST(TraceFiles, Philly) {
  std::vector<Job> jobs = fitted(readPhilly(kPhilly, "t"));
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, "application_1");
  EXPECT_EQ(jobs[0].arrival, 0);
  EXPECT_EQ(jobs[0].places, 1);
  EXPECT_NEAR(jobs[0].samples / jobs[0].throughputAt(1), 10, 1e-9);
  EXPECT_EQ(jobs[1].name, "application_2");
  EXPECT_EQ(jobs[1].kind, "u1");
  EXPECT_EQ(jobs[1].arrival, 30);
  EXPECT_EQ(jobs[1].places, 4);
  EXPECT_NEAR(jobs[1].samples / jobs[1].throughputAt(4), 60 + 120, 1e-9);
  EXPECT_NEAR(jobs[1].throughputAt(4) / jobs[1].throughputAt(1), 0.8 * 4, 1e-9);
  EXPECT_EQ(jobs[1].most(), 4);
  EXPECT_FALSE(jobs[1].told());
}

TEST(TraceFiles, Alibaba) {
  std::vector<Job> jobs = fitted(readAlibaba(kAlibaba, "t"));
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].name, "a");
  EXPECT_EQ(jobs[1].name, "b");
  EXPECT_EQ(jobs[1].kind, "worker");
  EXPECT_EQ(jobs[1].arrival, 100);
  EXPECT_EQ(jobs[1].places, 3); // five halves
  EXPECT_NEAR(jobs[1].samples / jobs[1].throughputAt(3), 610, 1e-9);
  EXPECT_EQ(fitted(readAlibaba(kAlibaba, "t"), 1).size(), 1u);
}

TEST(TraceFiles, Problems) {
  EXPECT_EQ(problemOf(readPhilly("[\n{]", "t")).substr(0, 26), "t:2:2: this is not JSON: [");
  EXPECT_EQ(problemOf(readPhilly("{}", "t")),
            "t:1:1: this is no list of jobs, as Philly's cluster_job_log is");
  EXPECT_EQ(problemOf(readAlibaba("a,b\n", "t")),
            "t:1:1: a row of pai_task_table has 10 columns, this one has 2");
  EXPECT_EQ(problemOf(readAlibaba("\na,b,1.0,Terminated,-3,4,5,6,7,T4\n", "t")),
            "t:2:20: \"-3\" is no number of at least 0");
  EXPECT_EQ(problemOf(readAlibaba("a,b,nan,Terminated,3,4,5,6,7,T4\n", "t")),
            "t:1:5: \"nan\" is no number of at least 0");
  EXPECT_EQ(problemOf(fitTrace({}, 1, kCluster, "t")),
            "t:1:1: the trace has no job that ended well on places");
  std::vector<Job> jobs = fitted(readAlibaba(kAlibaba, "t"));
  EXPECT_EQ(problemOf(fitTrace(jobs, 9, Cluster{{{"host", 2}}}, "t")),
            "t:1:1: job b can never run: it asks for 3 places, and the cluster has 2");
  jobs[1].arrival = 2e9;
  EXPECT_EQ(problemOf(fitTrace(jobs, 9, kCluster, "t")),
            "t:1:1: job b comes more than a billion seconds after the first");
}

TEST(TraceFiles, OddInput) {
  for (const char *text :
       {"[]", "[1, null, {}]", "[{\"status\": \"Pass\", \"submitted_time\": \"2017-02-30 00:00:00\"}]",
        "[{\"status\": \"Pass\", \"submitted_time\": \"2017-02-03 00:00:00\", \"attempts\": [[], 3]}]"})
    EXPECT_TRUE(std::get<std::vector<Job>>(readPhilly(text, "t")).empty()) << text;
  EXPECT_TRUE(std::get<std::vector<Job>>(readAlibaba("", "t")).empty());
}

} // namespace
