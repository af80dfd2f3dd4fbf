// What policies think that jobs have left.
#include "lib/Scheduler/BetaRegression.h"
#include "lib/Scheduler/Job.h"
#include "lib/Scheduler/LossFit.h"
#include "lib/Scheduler/WorkByKind.h"
#include <gtest/gtest.h>

using namespace tessera::scheduler;

namespace {

TEST(LossFit, FindsWhereACurveEnds) {
  LossCurve curve{6.5, 1.2, 0.8};
  std::vector<double> losses;
  for (int epoch = 1; epoch <= 12; ++epoch)
    losses.push_back(curve.at(epoch / 40.0));
  auto epochs = epochsToReach(curve.target, curve.first, losses);
  ASSERT_TRUE(epochs);
  EXPECT_NEAR(*epochs, 40, 4);
  losses.resize(2);
  EXPECT_FALSE(epochsToReach(curve.target, curve.first, losses));
}

TEST(LossFit, GivesUpOnLossesThatDoNotFall) { EXPECT_FALSE(epochsToReach(0.5, 1, {1.5, 2, 4, 8})); }

TEST(WorkByKind, LearnsAKindsMean) {
  WorkByKind work;
  for (double epochs : {9, 10, 11, 10})
    work.learn("short", epochs);
  for (double epochs : {95, 100, 105, 100})
    work.learn("long", epochs);
  EXPECT_NEAR(work.remaining("short", 0), 10, 1);
  EXPECT_NEAR(work.remaining("long", 0), 100, 10);
  EXPECT_NEAR(work.remaining("long", 40), 60, 10);
  double unknown = work.remaining("other", 0);
  EXPECT_TRUE(unknown > 20 && unknown < 60) << unknown;
}

TEST(WorkByKind, AJobBeyondAllOthersStillNeedsSome) {
  WorkByKind work;
  for (int i = 0; i < 5; ++i)
    work.learn("kind", 10);
  double before = work.remaining("kind", 0);
  for (double done : {5.0, 10.0, 15.0, 40.0, 1e4, 1e9}) {
    double left = work.remaining("kind", done);
    EXPECT_GT(left, 0) << done;
    EXPECT_LT(left, std::max(before, done)) << done;
  }
}

TEST(BetaRegression, Digamma) {
  EXPECT_NEAR(digamma(1), -0.5772156649015329, 1e-8);
  EXPECT_NEAR(digamma(0.5), -1.9635100260214235, 1e-8);
  EXPECT_NEAR(digamma(20), 2.970523992242149, 1e-8);
}

TEST(BetaRegression, DrawsOfTheGammaDistributionHaveItsMoments) {
  Random random(1);
  for (double shape : {0.5, 2.0, 30.0}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      double x = drawGamma(shape, random);
      sum += x, squares += x * x;
    }
    double mean = sum / kDraws;
    EXPECT_NEAR(mean, shape, 0.05 * shape + 0.02);
    EXPECT_NEAR(squares / kDraws - mean * mean, shape, 0.1 * shape + 0.02);
  }
}

TEST(BetaRegression, LearnsHowMuchIsLeft) {
  std::vector<BetaRegression::Example> examples;
  for (double epoch = 1; epoch < 20; ++epoch)
    examples.push_back({{9, 6, epoch, epoch / 25}, epoch / 20});
  BetaRegression regression(1);
  for (int i = 0; i < 5; ++i)
    regression.fit(examples);
  // a / (a + b) is a twentieth for each epoch.
  EXPECT_NEAR(regression.second({9, 6, 5, 0.2}), 15, 4);
  EXPECT_NEAR(regression.second({9, 6, 15, 0.6}), 5, 2);
  double sum = 0;
  for (int i = 0; i < 1000; ++i)
    sum += regression.draw({9, 6, 10, 0.4});
  EXPECT_NEAR(sum / 1000, 0.5, 0.1);
}

} // namespace
