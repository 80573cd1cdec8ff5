// What the programs that measure LevelDB have in common: records as a chainstate has them, and
// errors that end the program with one sentence.

#ifndef CAIRN_BENCH_LEVELDB_COINS_H
#define CAIRN_BENCH_LEVELDB_COINS_H

#include <leveldb/status.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

constexpr uint64_t MAINNET_COINS{170'000'000};
constexpr size_t KEY_SIZE{34};
constexpr size_t VALUE_SIZE{28};

//! Ends the program with its name and this sentence.
[[noreturn]] inline void Die(const std::string& why)
{
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
    std::exit(1);
}

inline void Check(const leveldb::Status& status)
{
    if (!status.ok()) Die(status.ToString() + "; is there space, and may the folder be written?");
}

//! The key of a coin, as good as random and always the same for the same number.
inline std::string Key(uint64_t serial)
{
    std::mt19937_64 generator{serial};
    char key[KEY_SIZE]{'C'};
    for (int i{0}; i < 4; ++i) {
        const uint64_t word{generator()};
        std::memcpy(key + 1 + 8 * i, &word, 8);
    }
    return {key, KEY_SIZE};
}

#endif // CAIRN_BENCH_LEVELDB_COINS_H
