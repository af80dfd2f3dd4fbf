// Equal runs in a list: what the page's plan is folded by.
#include "passes/Assign/Fold.h"
#include "gtest/gtest.h"
#include <random>

using namespace tessera;

namespace {

// `a (b c) x 3 d`, an element as its letter.
std::string text(const std::vector<Folded> &list, const std::vector<int> &keys) {
  std::string result;
  for (const Folded &each : list) {
    result += result.empty() ? "" : " ";
    if (each.inner.empty())
      result += char('a' + keys[each.element]);
    else
      result += "(" + text(each.inner, keys) + ") x " + std::to_string(each.times);
  }
  return result;
}

std::string folded(const std::string &letters) {
  std::vector<int> keys;
  for (char letter : letters)
    keys.push_back(letter - 'a');
  return text(foldRepeats(keys), keys);
}

void unfold(const std::vector<Folded> &list, const std::vector<int> &keys, std::vector<int> &out) {
  for (const Folded &each : list)
    for (size_t time = 0; time < each.times; ++time)
      if (each.inner.empty())
        out.push_back(keys[each.element]);
      else
        unfold(each.inner, keys, out);
}

TEST(Fold, Runs) {
  EXPECT_EQ(folded(""), "");
  EXPECT_EQ(folded("abc"), "a b c");
  EXPECT_EQ(folded("abcbcbcd"), "a (b c) x 3 d");
  EXPECT_EQ(folded("aaab"), "(a) x 3 b");
}

TEST(Fold, RunsWithinRuns) { EXPECT_EQ(folded("abbcabbcd"), "(a (b) x 2 c) x 2 d"); }

TEST(Fold, WhatCoversMost) {
  // Not `(a b) x 2`, which comes first.
  EXPECT_EQ(folded("ababcababc"), "((a b) x 2 c) x 2");
}

TEST(Fold, NothingIsLost) {
  std::mt19937 random(7);
  for (int time = 0; time < 200; ++time) {
    std::vector<int> keys(random() % 40), back;
    for (int &key : keys)
      key = int(random() % 3);
    unfold(foldRepeats(keys), keys, back);
    EXPECT_EQ(back, keys);
  }
}

} // namespace
