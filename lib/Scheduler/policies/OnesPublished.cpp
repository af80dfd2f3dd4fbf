// ONES (Bian et al., SC'21) by its published rules: candidates evolve by one round at every decision, the
// best one has the least remaining utilisation, the sum over its jobs of remaining time x places, and jobs
// grow from one place. docs/scheduling.md says which mistakes of the authors' program are not repeated.
#include "lib/Scheduler/Genome.h"
#include "lib/Scheduler/Limits.h"
#include "lib/Scheduler/PublishedProgress.h"
#include <algorithm>

namespace tessera::scheduler {

namespace {

constexpr size_t kPopulation = 16;
constexpr double kDrop = 0.3;

class OnesPublished : public Policy {
public:
  explicit OnesPublished(const PolicyOptions &options) : progress(options), random(options.seed) {}
  Assignment decide(const Situation &situation) override;
  bool wantsEpochs() const override { return true; }
  bool resizes() const override { return true; }
  Batch batch() const override { return Batch::Places; }
  void ended(const ActiveJob &job) override { progress.ended(job); }

private:
  void look(const Situation &situation);
  void evolve(const Situation &situation);
  Assignment completed(const Assignment &genome, const Situation &situation) const;
  double score(const Assignment &genome) const;
  Assignment deploy(const Situation &situation);
  int limit(int job) const {
    auto active = jobs.find(job);
    return active == jobs.end() ? 0 : limits.of(*active->second);
  }

  PublishedProgress progress;
  Random random;
  Limits limits;
  std::vector<Assignment> population;
  std::map<int, const ActiveJob *> jobs;
  std::map<int, double> left; // samples
};

// What is known of each job at this decision.
void OnesPublished::look(const Situation &situation) {
  limits.update(situation);
  jobs.clear();
  left.clear();
  for (const ActiveJob *job : situation.jobs) {
    jobs[job->index] = job;
    left[job->index] = progress.remaining(*job);
  }
}

Assignment OnesPublished::completed(const Assignment &genome, const Situation &situation) const {
  std::vector<int> fresh, rest;
  for (const ActiveJob *job : situation.jobs)
    (job->started ? rest : fresh).push_back(job->index);
  std::ranges::stable_sort(rest, {}, [&](int job) {
    const ActiveJob &active = *jobs.at(job);
    return left.at(job) / (*active.speed)[active.job->fewest()];
  });
  Allocation allocation = allocationOf(genome);
  fill(
      allocation, static_cast<int>(genome.size()), fresh, rest,
      [&](int job) { return jobs.at(job)->job->fewest(); }, [&](int job) { return limit(job); });
  return reorder(allocation, situation.running);
}

double OnesPublished::score(const Assignment &genome) const {
  double sum = 0;
  for (auto [job, count] : allocationOf(genome))
    sum += left.at(job) * count / (*jobs.at(job)->speed)[count];
  return sum;
}

void OnesPublished::evolve(const Situation &situation) {
  auto limitOf = [&](int job) { return limit(job); };
  population.resize(kPopulation, situation.running);
  std::vector<Assignment> next;
  for (const Assignment &genome : population)
    next.push_back(refresh(genome, limitOf));
  for (size_t i = 0; i < kPopulation / 2; ++i) {
    int first = random.below(kPopulation), second = random.below(kPopulation);
    auto [left, right] = crossover(next[first], next[second], limitOf, random);
    next.push_back(std::move(left));
    next.push_back(std::move(right));
  }
  auto mayDrop = [&](int job) { return jobs.at(job)->epochs() >= Limits::kEpochsToGrow; };
  for (size_t i = 0; i < kPopulation; ++i)
    next.push_back(mutate(next[i], mayDrop, kDrop, random));
  std::vector<std::pair<double, size_t>> scores;
  for (size_t i = 0; i < next.size(); ++i) {
    next[i] = completed(next[i], situation);
    scores.emplace_back(score(next[i]), i);
  }
  std::ranges::sort(scores);
  for (size_t i = 0; i < kPopulation; ++i)
    population[i] = next[scores[i].second];
}

// The best candidate, once every running job that it touches has done an epoch since its last change; until
// then only what is idle goes to the jobs that the candidate starts there.
Assignment OnesPublished::deploy(const Situation &situation) {
  const Assignment &best = population.front(), &running = situation.running;
  std::map<int, bool> touched, startable;
  for (size_t i = 0; i < best.size(); ++i) {
    if (running[i] != kIdle && running[i] != best[i])
      touched[running[i]] = true;
    if (best[i] != kIdle && running[i] != best[i])
      touched[best[i]] = true;
  }
  bool ready = std::ranges::all_of(touched, [&](auto &entry) {
    const ActiveJob &job = *jobs.at(entry.first);
    return job.held == 0 || job.epochsSinceChange() > 0;
  });
  Assignment result = running;
  if (ready) {
    result = best;
  } else {
    for (size_t i = 0; i < best.size(); ++i)
      if (best[i] != kIdle)
        startable.try_emplace(best[i], jobs.at(best[i])->held == 0).first->second &= running[i] == kIdle;
    for (size_t i = 0; i < best.size(); ++i)
      if (best[i] != kIdle && startable[best[i]])
        result[i] = best[i];
  }
  Allocation given = allocationOf(result);
  for (auto &[job, active] : jobs)
    if (ready && active->started && !given.contains(job) && active->held == 0)
      limits.passOver(*active);
  return result;
}

Assignment OnesPublished::decide(const Situation &situation) {
  look(situation);
  evolve(situation);
  return deploy(situation);
}

} // namespace

std::unique_ptr<Policy> makeOnesPublished(const PolicyOptions &options) {
  return std::make_unique<OnesPublished>(options);
}

} // namespace tessera::scheduler
