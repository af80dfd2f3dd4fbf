// Mutations that know ONNX's messages: bytes changed at random rarely leave a model that protobuf can parse.
#include "onnx_reflected.pb.h"
#include <algorithm>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

using Random = std::minstd_rand;

size_t below(Random &random, size_t n) { return random() % n; }

// A message of the model and all below it, and all strings that they hold: names to wire anew.
void collect(Message &message, std::vector<Message *> &messages, std::vector<std::string> &strings) {
  messages.push_back(&message);
  const Reflection &reflection = *message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    int n = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < n; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
        collect(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                     : *reflection.MutableMessage(&message, field),
                messages, strings);
      else if (field->type() == FieldDescriptor::TYPE_STRING)
        strings.push_back(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                               : reflection.GetString(message, field));
    }
  }
}

int64_t integer(Random &random, int64_t old) {
  static constexpr int64_t special[] = {0,         1,        2,       3,         4,         7,
                                        8,         10,       13,      20,        64,        1000,
                                        -1,        -2,       1 << 20, INT32_MAX, INT32_MIN, int64_t(1) << 40,
                                        INT64_MAX, INT64_MIN};
  switch (below(random, 4)) {
  case 0:
    return static_cast<int64_t>(static_cast<uint64_t>(old) + 1);
  case 1:
    return static_cast<int64_t>(static_cast<uint64_t>(old) - 1);
  default:
    return special[below(random, std::size(special))];
  }
}

std::string bytes(std::string old) {
  size_t room = old.size() + 16;
  size_t size = old.size();
  old.resize(room);
  old.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(old.data()), size, room));
  return old;
}

// Sets one value, in place of element `index` or, where that is -1, as a new or the only one.
void setValue(Random &random, Message &message, const FieldDescriptor *field, int index,
              const std::vector<Message *> &messages, const std::vector<std::string> &strings) {
  const Reflection &r = *message.GetReflection();
  bool repeated = field->is_repeated(), add = repeated && index < 0;
  switch (field->cpp_type()) {
#define TESSERA_SCALAR(CASE, NAME, TYPE, VALUE)                                                              \
  case FieldDescriptor::CASE: {                                                                              \
    [[maybe_unused]] auto old = !repeated ? r.Get##NAME(message, field)                                      \
                                : add     ? TYPE()                                                           \
                                          : r.GetRepeated##NAME(message, field, index);                      \
    if (add)                                                                                                 \
      r.Add##NAME(&message, field, VALUE);                                                                   \
    else if (repeated)                                                                                       \
      r.SetRepeated##NAME(&message, field, index, VALUE);                                                    \
    else                                                                                                     \
      r.Set##NAME(&message, field, VALUE);                                                                   \
    break;                                                                                                   \
  }
    TESSERA_SCALAR(CPPTYPE_INT32, Int32, int32_t, static_cast<int32_t>(integer(random, old)))
    TESSERA_SCALAR(CPPTYPE_INT64, Int64, int64_t, integer(random, old))
    TESSERA_SCALAR(CPPTYPE_UINT32, UInt32, uint32_t, static_cast<uint32_t>(integer(random, old)))
    TESSERA_SCALAR(CPPTYPE_UINT64, UInt64, uint64_t,
                   static_cast<uint64_t>(integer(random, static_cast<int64_t>(old))))
    TESSERA_SCALAR(CPPTYPE_FLOAT, Float, float, static_cast<float>(integer(random, 0)) / 3)
    TESSERA_SCALAR(CPPTYPE_DOUBLE, Double, double, static_cast<double>(integer(random, 0)) / 3)
    TESSERA_SCALAR(CPPTYPE_BOOL, Bool, bool, !old)
    TESSERA_SCALAR(
        CPPTYPE_ENUM, EnumValue, int,
        (void(old), field->enum_type()->value(below(random, field->enum_type()->value_count()))->number()))
    TESSERA_SCALAR(CPPTYPE_STRING, String, std::string,
                   field->type() == FieldDescriptor::TYPE_STRING && !strings.empty() && below(random, 4)
                       ? strings[below(random, strings.size())]
                       : bytes(old))
#undef TESSERA_SCALAR
  case FieldDescriptor::CPPTYPE_MESSAGE: {
    std::vector<Message *> same;
    for (Message *candidate : messages)
      if (candidate->GetDescriptor() == field->message_type())
        same.push_back(candidate);
    // A copy first: the source may hold the target.
    std::unique_ptr<Message> copy;
    if (!same.empty()) {
      const Message &source = *same[below(random, same.size())];
      copy.reset(source.New());
      copy->CopyFrom(source);
    }
    Message *target = add        ? r.AddMessage(&message, field)
                      : repeated ? r.MutableRepeatedMessage(&message, field, index)
                                 : r.MutableMessage(&message, field);
    if (copy)
      target->CopyFrom(*copy);
    break;
  }
  }
}

void mutate(Random &random, Message &model, Message *other) {
  std::vector<Message *> messages, sources;
  std::vector<std::string> strings;
  collect(model, messages, strings);
  sources = messages;
  if (other)
    collect(*other, sources, strings);
  Message &message = *messages[below(random, messages.size())];
  const FieldDescriptor *field =
      message.GetDescriptor()->field(below(random, message.GetDescriptor()->field_count()));
  const Reflection &reflection = *message.GetReflection();
  if (!field->is_repeated()) {
    if (below(random, 8) == 0)
      reflection.ClearField(&message, field);
    else
      setValue(random, message, field, -1, sources, strings);
    return;
  }
  int n = reflection.FieldSize(message, field);
  int action = n ? below(random, 4) : 0;
  int index = n ? below(random, n) : 0;
  if (action == 0) {
    setValue(random, message, field, -1, sources, strings);
  } else if (action == 1) {
    setValue(random, message, field, index, sources, strings);
  } else if (action == 2) {
    reflection.SwapElements(&message, field, index, below(random, n));
  } else {
    reflection.SwapElements(&message, field, index, n - 1);
    reflection.RemoveLast(&message, field);
  }
}

size_t mutated(const uint8_t *data, size_t size, const uint8_t *otherData, size_t otherSize, uint8_t *out,
               size_t maxSize, unsigned seed) {
  Random random(seed);
  onnx_reflected::ModelProto model, other;
  if (!model.ParseFromArray(data, static_cast<int>(size)))
    return 0;
  bool splice = otherData && other.ParseFromArray(otherData, static_cast<int>(otherSize));
  for (size_t i = 0, n = 1 + below(random, 4); i < n; ++i)
    mutate(random, model, splice ? &other : nullptr);
  std::string text;
  if (!model.SerializePartialToString(&text) || text.size() > maxSize)
    return 0;
  std::copy(text.begin(), text.end(), out);
  return text.size();
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  if (seed % 8 != 0)
    if (size_t n = mutated(data, size, nullptr, 0, data, maxSize, seed))
      return n;
  return LLVMFuzzerMutate(data, size, maxSize);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data, size_t size, const uint8_t *otherData,
                                            size_t otherSize, uint8_t *out, size_t maxSize, unsigned seed) {
  return mutated(data, size, otherData, otherSize, out, maxSize, seed);
}
