// Conformance of ranks that are threads.
#include "runtime/comm/agreed_error.h"
#include "runtime/comm/engine.h"
#include "runtime/comm/threads/threads.h"
#include "runtime/cts/comm/cases.h"
#include "runtime/cts/comm/launched.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tessera::rt {
namespace {

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AgreeWithTheReference) {
  int ranks = GetParam();
  std::vector<cts::Case> cases = cts::casesFor(ranks);
  std::vector<cts::Outcome> outcomes(ranks);
  runThreads(ranks,
             [&](Transport &transport) { outcomes[transport.rank()] = cts::runCases(transport, cases); });
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(outcomes[rank].cases, int64_t(cases.size()));
    for (size_t i = 0; i < std::min<size_t>(outcomes[rank].failures.size(), 10); ++i)
      ADD_FAILURE() << "rank " << rank << ": " << outcomes[rank].failures[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 6, 8),
                         testing::PrintToStringParamName());

/// An all-reduce of `elements` f32 over all ranks.
Collective sumOf(int64_t elements, Transport &transport) {
  CollectiveRequest request{.kind = "all_reduce", .axes = {{"x", 1, transport.size()}}, .shape = {elements}};
  return makeCollective(request, Mesh({{"x", transport.size()}}), transport.rank());
}

/// The message of what `body` throws on some rank of `ranks`; fails when that takes long.
std::string errorOf(int ranks, const std::function<void(Transport &)> &body) {
  auto begin = std::chrono::steady_clock::now();
  std::string message;
  try {
    runThreads(ranks, body);
  } catch (const Error &error) {
    message = error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  return message;
}

TEST(Threads, AFailingRankEndsTheOthers) {
  std::atomic<int> ended = 0;
  std::string message = errorOf(4, [&](Transport &transport) {
    Engine engine(transport);
    std::vector<float> data(300000, 1.0f), scratch(600000);
    Collective sum = sumOf(int64_t(data.size()), transport);
    try {
      for (int step = 0;; ++step) {
        if (transport.rank() == 2 && step == 3)
          throw Error("no more data");
        engine.run(sum, data.data(), data.data(), scratch.data());
      }
    } catch (const Error &error) {
      ++ended;
      if (transport.rank() != 2) {
        EXPECT_STREQ(error.what(), "rank 2 of 4: no more data");
      }
      throw;
    }
  });
  EXPECT_EQ(message, "rank 2 of 4: no more data");
  EXPECT_EQ(ended, 4);
}

TEST(Threads, AFailureReachesTheCommunicationThread) {
  std::string message = errorOf(3, [&](Transport &transport) {
    Engine engine(transport);
    std::vector<float> data(100), scratch(200);
    Collective sum = sumOf(100, transport);
    if (transport.rank() == 1)
      throw Error("broken");
    engine.wait(engine.start(sum, data.data(), data.data(), scratch.data()));
  });
  EXPECT_EQ(message, "rank 1 of 3: broken");
}

TEST(Threads, ARankThatFailsWhileItCommunicatesEndsInOrder) {
  // The communication thread is in the middle of a collective when the rank's own thread throws.
  std::string message = errorOf(2, [&](Transport &transport) {
    Engine engine(transport);
    std::vector<float> data(1000), scratch(2000);
    Collective sum = sumOf(1000, transport);
    if (transport.rank() == 0) {
      engine.start(sum, data.data(), data.data(), scratch.data());
      engine.giveUp();
      throw Error("not a number");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    engine.run(sum, data.data(), data.data(), scratch.data());
  });
  EXPECT_EQ(message, "rank 0 of 2: not a number");
}

TEST(Threads, OneThatCannotStartIsAnError) {
  cts::Launched result = cts::run("'" + cts::launchedProgram() + "' threads 2 2>&1");
  EXPECT_EQ(result.status, 1);
  // That of rank 2, or before it the communication thread of rank 1.
  EXPECT_EQ(cts::count(result.output, "error: rank "), 1) << result.output;
  EXPECT_NE(result.output.find(" of 4: cannot start the "), std::string::npos) << result.output;
  EXPECT_EQ(cts::count(result.output, "terminate"), 0) << result.output;
}

TEST(Threads, WaitingForARankThatHasEndedIsAnError) {
  std::string message = errorOf(2, [](Transport &transport) {
    if (transport.rank() == 0) {
      char byte;
      transport.wait(transport.receive(1, &byte, 1));
    }
  });
  EXPECT_EQ(message, "rank 0 of 2: rank 1 ended while rank 0 waited for it");
}

TEST(Threads, DifferentLengthsAreAnError) {
  // Who comes second says so.
  for (bool second : {false, true}) {
    std::string message = errorOf(2, [second](Transport &transport) {
      char bytes[8] = {}, word = 0;
      int peer = 1 - transport.rank();
      bool waits = (transport.rank() == 1) == second;
      if (waits)
        transport.wait(transport.receive(peer, &word, 1, Transport::Control));
      Transport::Request request =
          transport.rank() ? transport.send(peer, bytes, 8) : transport.receive(peer, bytes, 4);
      if (!waits)
        transport.wait(transport.send(peer, &word, 1, Transport::Control));
      transport.wait(request);
    });
    EXPECT_EQ(message, second ? "rank 1 of 2: rank 1 sends 8 bytes, rank 0 expects 4: they execute different "
                                "programs"
                              : "rank 0 of 2: rank 0 expects 4 bytes, rank 1 sends 8: they execute different "
                                "programs");
  }
}

TEST(Threads, CommunicationThatWasGivenUpIsAnError) {
  std::string message = errorOf(2, [](Transport &transport) {
    char byte;
    if (transport.rank() == 1)
      return;
    transport.cancel();
    transport.wait(transport.receive(1, &byte, 1));
  });
  EXPECT_EQ(message, "rank 0 of 2: communication of rank 0 was given up");
}

TEST(Counting, ASendOutsideOfCollectivesIsSeen) {
  runThreads(2, [](Transport &transport) {
    char bytes[24] = {};
    int peer = 1 - transport.rank();
    transport.wait(transport.rank() ? transport.send(peer, bytes, 24) : transport.receive(peer, bytes, 24));
    if (transport.rank() == 1) {
      EXPECT_EQ(transport.sent().at("").at("send").bytes, 24);
      EXPECT_EQ(transport.sent().at("").at("send").count, 1);
    } else {
      EXPECT_TRUE(transport.sent().empty());
    }
  });
}

TEST(EngineTest, TellsWhenAMessageHadLeft) {
  using namespace std::chrono_literals;
  runThreads(2, [](Transport &transport) {
    Engine engine(transport);
    int seen = 0;
    Engine::Clock::time_point left;
    engine.setObservers(
        {}, [&](const Message &message, Engine::Clock::time_point begin, Engine::Clock::time_point end) {
          EXPECT_EQ(message.peer, 1);
          EXPECT_GE(end - begin, 20ms) << "nobody received it";
          left = end;
          ++seen;
        });
    Message message{1 - transport.rank(), 4, "x"};
    float value = 1;
    if (transport.rank() == 0) {
      Engine::Token token = engine.startSend(message, &value);
      engine.barrier();
      engine.barrier();
      auto asked = Engine::Clock::now();
      engine.waitSend(token);
      EXPECT_EQ(seen, 1);
      EXPECT_LE(left, asked) << "it had left before that was asked";
    } else {
      engine.barrier();
      std::this_thread::sleep_for(30ms);
      engine.receive(message, &value);
      engine.barrier();
      EXPECT_EQ(seen, 0);
    }
  });
}

TEST(EngineTest, ExecutesInOrderAndTellsTheTimes) {
  runThreads(2, [](Transport &transport) {
    Engine engine(transport);
    std::vector<std::pair<const Collective *, Engine::Clock::time_point>> seen;
    engine.setObservers(
        [&](const Collective &collective, Engine::Clock::time_point begin, Engine::Clock::time_point end) {
          EXPECT_LE(begin, end);
          seen.push_back({&collective, begin});
        });
    float a = 1, b = 10, c = 100, scratch[3];
    Collective first = sumOf(1, transport), second = first, third = first;
    Engine::Token tokenA = engine.start(first, &a, &a, &scratch[0]);
    Engine::Token tokenB = engine.start(second, &b, &b, &scratch[1]);
    engine.run(third, &c, &c, &scratch[2]);
    engine.wait(tokenB);
    engine.wait(tokenA);
    EXPECT_EQ(a, 2);
    EXPECT_EQ(b, 20);
    EXPECT_EQ(c, 200);
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen[0].first, &first);
    EXPECT_EQ(seen[1].first, &second);
    EXPECT_EQ(seen[2].first, &third);
    EXPECT_EQ(engine.sent().at("x").at("all_reduce").count, 3);
    EXPECT_EQ(engine.sent().at("x").at("all_reduce").bytes, 3 * 4);
  });
}

TEST(EngineTest, ExchangesTextsUncounted) {
  runThreads(3, [](Transport &transport) {
    Engine engine(transport);
    std::vector<std::string> texts =
        engine.exchange(std::string(transport.rank() * 1000, 'a' + transport.rank()));
    ASSERT_EQ(texts.size(), 3u);
    EXPECT_EQ(texts[0], "");
    EXPECT_EQ(texts[1], std::string(1000, 'b'));
    EXPECT_EQ(texts[2], std::string(2000, 'c'));
    engine.barrier();
    engine.agreeOn("the plan", "same");
    engine.agree("");
    EXPECT_TRUE(engine.sent().empty());
  });
}

TEST(EngineTest, AllKnowWhatAnyRankKnows) {
  for (int ranks : {1, 2, 3, 5, 8})
    for (int who = -1; who < ranks; ++who)
      runThreads(ranks, [&](Transport &transport) {
        Engine engine(transport);
        EXPECT_EQ(engine.anyRank(transport.rank() == who), who >= 0) << who << " of " << ranks;
        EXPECT_FALSE(engine.anyRank(false));
        EXPECT_TRUE(engine.sent().empty());
      });
}

TEST(EngineTest, AnAgreedErrorIsEveryones) {
  std::atomic<int> agreed = 0;
  auto body = [&](auto &&act) {
    return [&agreed, act](Transport &transport) {
      Engine engine(transport);
      try {
        act(engine);
      } catch (const AgreedError &) {
        ++agreed;
        throw;
      }
    };
  };
  EXPECT_EQ(errorOf(3, body([](Engine &engine) { engine.agree(engine.rank() == 1 ? "no such file" : ""); })),
            "rank 1 of 3: no such file");
  EXPECT_EQ(errorOf(3, body([](Engine &engine) { engine.agree("no such file"); })), "no such file");
  EXPECT_EQ(errorOf(2, body([](Engine &engine) { engine.agreeOn("the plan", engine.rank() ? "b" : "a"); })),
            "the plan differs between ranks: rank 0 has 'a', rank 1 has 'b'");
  EXPECT_EQ(agreed, 8);
}

TEST(EngineTest, OneRankSendsNothing) {
  runThreads(1, [](Transport &transport) {
    Engine engine(transport);
    Collective sum = sumOf(3, transport);
    EXPECT_EQ(sum.scratchBytes(), 0);
    float in[3] = {1, 2, 3}, out[3] = {};
    engine.wait(engine.start(sum, in, out, nullptr));
    EXPECT_EQ(out[2], 3);
    engine.barrier();
    EXPECT_TRUE(engine.sent().empty());
  });
}

} // namespace
} // namespace tessera::rt
