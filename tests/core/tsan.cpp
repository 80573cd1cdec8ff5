// The program around those of Bitcoin Core's unit tests that are run with the thread
// sanitizer, see support/core-tsan: Boost's main() and nothing of a node.
#define BOOST_TEST_MODULE thread sanitizer
#include <boost/test/included/unit_test.hpp>

#include <util/translation.h>

const TranslateFn G_TRANSLATION_FUN{nullptr};
