// ONES's operators with another judge: a candidate is fast-forwarded to the end of all jobs, and the one with
// the earliest ends is deployed. Jobs begin on places chosen from the throughput table, and what they have
// left is learned by kind. docs/scheduling.md has what each of the three is worth.
#include "lib/Scheduler/FastForward.h"
#include "lib/Scheduler/Genome.h"
#include "lib/Scheduler/Limits.h"
#include "lib/Scheduler/PublishedProgress.h"
#include "lib/Scheduler/WorkByKind.h"
#include <algorithm>
#include <optional>
#include <queue>

namespace tessera::scheduler {

namespace {

constexpr size_t kPopulation = 16;
constexpr double kDrop = 0.3;
// A job from the queue gets as many places as are used at least so well, of one place's speed each.
constexpr double kUse = 0.7;
// Candidates try other uses, down to this one, and other orders of the waiting: e to a normal variable of
// this deviation.
constexpr double kLeastUse = 0.25, kScatter = 0.3;

class Ones : public Policy {
public:
  explicit Ones(const PolicyOptions &options) : parts(options.ones), random(options.seed), progress(options) {
    for (const Job &job : options.history)
      work.learn(job.kind, job.epochs());
  }
  Assignment decide(const Situation &situation) override;
  bool resizes() const override { return true; }
  bool wantsEpochs() const override { return !parts.table; }
  Batch batch() const override { return parts.batch ? Batch::AtLeastAsked : Batch::Places; }
  void ended(const ActiveJob &job) override {
    work.learn(job.job->kind, job.done / job.job->dataSize);
    progress.ended(job);
  }
  double forecast(int job) const override {
    auto known = ends.find(job);
    return known == ends.end() ? kNever : known->second;
  }

private:
  struct Candidate {
    Assignment genome;
    double score = 0;
  };
  using Counts = std::vector<int>; // by the job's place in the situation

  void look(const Situation &situation);
  double left(const ActiveJob &job);
  int usedWell(const Ahead &job, double use) const;
  Counts countsOf(const Assignment &genome) const;
  void complete(Counts &counts, double use, double scatter);
  void addCandidate(std::vector<Candidate> &to, const Counts &counts, const Situation &situation);
  double score(const Counts &counts);
  std::vector<Candidate> firstCandidates(const Situation &situation, const Limit &limit);
  void evolve(const Situation &situation);
  int rounds() const;

  OnesParts parts;
  Random random;
  PublishedProgress progress;
  WorkByKind work;
  Limits limits;
  std::vector<Candidate> population;
  // Of this decision.
  std::vector<Ahead> jobs;
  std::map<int, size_t> positions;
  std::vector<int> hosts;
  int places = 0;
  std::optional<FastForward> forward;
  std::map<int, double> ends;
};

// Samples that a job has left.
double Ones::left(const ActiveJob &active) {
  if (auto told = active.job->told())
    return *told - active.done;
  if (!parts.kinds)
    return progress.remaining(active);
  double size = active.job->dataSize;
  return work.remaining(active.job->kind, active.done / size) * size;
}

int Ones::usedWell(const Ahead &job, double use) const {
  int best = job.fewest;
  double one = (*job.speed)[job.fewest] / job.fewest;
  for (int count = job.fewest; count <= job.most; ++count)
    if ((*job.speed)[count] >= use * one * count)
      best = count;
  return withoutIdle(*job.speed, best, job.fewest);
}

void Ones::look(const Situation &situation) {
  limits.update(situation);
  places = static_cast<int>(situation.running.size());
  hosts = situation.cluster->hostOfPlace();
  jobs.clear();
  positions.clear();
  for (const ActiveJob *job : situation.jobs) {
    Ahead ahead{left(*job),
                job->speed,
                job->job->fewest(),
                job->most(),
                0,
                job->held,
                situation.cluster->pausesOf(*job->job)};
    if (!parts.table)
      ahead.most = limits.of(*job);
    ahead.begin = usedWell(ahead, kUse);
    positions[job->index] = jobs.size();
    jobs.push_back(ahead);
  }
  forward.emplace(jobs, places);
}

Ones::Counts Ones::countsOf(const Assignment &genome) const {
  Counts counts(jobs.size());
  for (auto [job, count] : allocationOf(genome))
    if (auto known = positions.find(job); known != positions.end() && count >= jobs[known->second].fewest)
      counts[known->second] = withoutIdle(
          *jobs[known->second].speed, std::min(count, jobs[known->second].most), jobs[known->second].fewest);
  return counts;
}

// Gives free places away: to waiting jobs, the least work first, as many as they use well; the rest one by
// one where a place shortens a job's time most. `scatter` is of the order of the waiting.
void Ones::complete(Counts &counts, double use, double scatter) {
  int free = places;
  std::vector<std::pair<double, size_t>> waiting;
  for (size_t i = 0; i < jobs.size(); ++i) {
    free -= counts[i];
    double time = jobs[i].samples / (*jobs[i].speed)[jobs[i].begin] * jobs[i].begin;
    if (counts[i] == 0)
      waiting.emplace_back(time * std::exp(scatter * random.normal()), i);
  }
  std::ranges::sort(waiting);
  for (auto [time, i] : waiting) {
    int given = std::min(usedWell(jobs[i], use), free);
    if (given < jobs[i].fewest)
      continue;
    counts[i] = given;
    free -= given;
  }
  std::priority_queue<std::pair<double, size_t>> gains; // of each further place
  auto offer = [&](size_t i) {
    const std::vector<double> &speed = *jobs[i].speed;
    int next = counts[i] > 0 ? nextFaster(speed, counts[i], jobs[i].most) : 0, more = next - counts[i];
    if (next && more <= free)
      gains.emplace(jobs[i].samples * (1 / speed[counts[i]] - 1 / speed[next]) / more, i);
  };
  for (size_t i = 0; i < jobs.size(); ++i)
    offer(i);
  while (free > 0 && !gains.empty()) {
    size_t i = gains.top().second;
    gains.pop();
    int next = nextFaster(*jobs[i].speed, counts[i], jobs[i].most);
    if (next - counts[i] > free)
      continue;
    free -= next - counts[i];
    counts[i] = next;
    offer(i);
  }
}

double Ones::score(const Counts &counts) {
  if (parts.forecast)
    return forward->run(counts);
  double sum = 0; // remaining utilisation, as published
  for (size_t i = 0; i < jobs.size(); ++i)
    if (counts[i])
      sum += jobs[i].samples * counts[i] / (*jobs[i].speed)[counts[i]];
  return sum;
}

void Ones::addCandidate(std::vector<Candidate> &to, const Counts &counts, const Situation &situation) {
  scheduler::Counts given;
  for (size_t i = 0; i < counts.size(); ++i)
    given.emplace_back(situation.jobs[i]->index, counts[i]);
  to.push_back({placeJobs(situation.running, given, hosts), score(counts)});
}

// More where a round is quick: what it costs is about jobs x jobs, of fast-forwards, and places, of genomes.
int Ones::rounds() const {
  constexpr double kMost = 8, kCost = 100000;
  double cost = static_cast<double>(jobs.size() * jobs.size()) + 20.0 * places;
  return static_cast<int>(std::clamp(kCost / cost, 1.0, kMost));
}

// What evolution starts from: what runs, the same with idle places given away, all places given away anew,
// and the candidates of the decision before.
std::vector<Ones::Candidate> Ones::firstCandidates(const Situation &situation, const Limit &limit) {
  std::vector<Candidate> candidates;
  Counts running = countsOf(situation.running);
  if (parts.forecast) // by the published score nothing is better than idle places
    addCandidate(candidates, running, situation);
  complete(running, kUse, 0);
  addCandidate(candidates, running, situation);
  for (double use : {1.0, 0.85, 0.7, 0.55, 0.4, 0.25}) {
    Counts counts(jobs.size());
    complete(counts, use, 0);
    addCandidate(candidates, counts, situation);
  }
  for (const Candidate &candidate : population) {
    Counts counts = countsOf(refresh(candidate.genome, limit));
    complete(counts, random.uniform(kLeastUse, 1), 0);
    addCandidate(candidates, counts, situation);
  }
  return candidates;
}

void Ones::evolve(const Situation &situation) {
  auto limit = [&](int job) {
    auto known = positions.find(job);
    return known == positions.end() ? 0 : jobs[known->second].most;
  };
  std::vector<Candidate> next = firstCandidates(situation, limit);
  auto keepBest = [&] {
    std::ranges::stable_sort(next, {}, &Candidate::score);
    // Each once: copies of what runs would leave no room for others.
    auto copies = std::ranges::unique(next, {}, &Candidate::genome);
    next.erase(copies.begin(), copies.end());
    if (next.size() > kPopulation)
      next.resize(kPopulation);
  };
  keepBest();
  auto add = [&](const Assignment &genome) {
    Counts counts = countsOf(genome);
    complete(counts, random.uniform(kLeastUse, 1), kScatter);
    addCandidate(next, counts, situation);
  };
  for (int round = 0; parts.evolution && round < rounds(); ++round) {
    int parents = static_cast<int>(next.size());
    for (size_t i = 0; i < kPopulation / 2; ++i) {
      int first = random.below(parents), second = random.below(parents);
      auto [left, right] = crossover(next[first].genome, next[second].genome, limit, random);
      add(left);
      add(right);
    }
    for (int i = 0; i < parents; ++i)
      add(mutate(next[i].genome, [](int) { return true; }, kDrop, random));
    keepBest();
  }
  population = std::move(next);
}

Assignment Ones::decide(const Situation &situation) {
  look(situation);
  evolve(situation);
  forward->run(countsOf(population.front().genome));
  ends.clear();
  for (size_t i = 0; i < jobs.size(); ++i)
    ends[situation.jobs[i]->index] = situation.now + forward->ends()[i];
  return population.front().genome;
}

} // namespace

std::unique_ptr<Policy> makeOnes(const PolicyOptions &options) { return std::make_unique<Ones>(options); }

} // namespace tessera::scheduler
