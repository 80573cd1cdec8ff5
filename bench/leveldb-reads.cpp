// What lookups of coins cost that are not in memory, with each of the ways in which LevelDB can
// be told to read, and how long a small write waits while another database is compacted. A helper
// of bench/reads.py (make bench-reads), which gives it a device and little memory; prints JSON.
//
// usage: leveldb-reads make DIR COINS [BITS]       makes the database, with BITS of filter for each
//                                                  key, default 10
//        leveldb-reads VARIANT DIR COINS LOOKUPS   reads it; VARIANT: a name in VARIANTS
//        leveldb-reads wait-shared|wait-own DIR    writes to one while another is compacted
//
// Records and proportions are those of bench/leveldb-levels.cpp.

#include "leveldb-coins.h"

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {
constexpr uint64_t WRITE_BUFFER{16 << 20}; //!< of the node's coins database
constexpr uint64_t TABLE{32 << 20};        //!< of the node's databases
constexpr uint64_t LEVEL_BASE{20 << 20};

struct Variant {
    const char* name;
    bool hits;   //!< no filter is asked in the last level
    bool random; //!< random access is told to the system
    bool block;  //!< the block of a lookup is asked for in one piece
} constexpr VARIANTS[]{
    {"as-it-was", false, false, false},
    {"hits", true, false, false},
    {"random", false, true, false},
    {"random-hits", true, true, false},
    {"all", true, true, true},
};

//! Set while keys are looked up
thread_local bool g_looking{false};

//! Hands everything on, but not that the block of a lookup is wanted, unless "block"
class RandomAccessFile : public leveldb::RandomAccessFile
{
    const std::unique_ptr<leveldb::RandomAccessFile> m_file;
    const bool m_block;

public:
    RandomAccessFile(leveldb::RandomAccessFile* file, bool block) : m_file{file}, m_block{block} {}
    leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
        char* scratch) const override
    {
        return m_file->Read(offset, n, result, scratch);
    }
    void AdviseRandom() override { m_file->AdviseRandom(); }
    void Prefetch(uint64_t offset, size_t n) const override
    {
        if (m_block || !g_looking || n > 6000) m_file->Prefetch(offset, n);
    }
    std::string GetName() const override { return m_file->GetName(); }
};

class Env : public leveldb::EnvWrapper
{
    const bool m_block;

public:
    explicit Env(bool block) : EnvWrapper{leveldb::Env::Default()}, m_block{block} {}
    leveldb::Status NewRandomAccessFile(const std::string& name,
        leveldb::RandomAccessFile** file) override
    {
        const leveldb::Status status{target()->NewRandomAccessFile(name, file)};
        if (status.ok()) *file = new RandomAccessFile{*file, m_block};
        return status;
    }
};

struct Database {
    const std::unique_ptr<leveldb::Cache> cache{leveldb::NewLRUCache(1 << 20)};
    const std::unique_ptr<const leveldb::FilterPolicy> filter;
    std::unique_ptr<leveldb::DB> db;

    //! "bits": for each key, in the filters of what is written; to read, any will do
    Database(const std::string& dir, leveldb::Options options, int bits = 10)
        : filter{leveldb::NewBloomFilterPolicy(bits)}
    {
        options.create_if_missing = true;
        options.block_cache = cache.get();
        options.filter_policy = filter.get();
        options.compression = leveldb::kNoCompression;
        options.paranoid_checks = true;
        options.level_compaction_dynamic_level_bytes = true;
        options.full_filter = true;
        options.seek_compaction = false;
        leveldb::DB* opened;
        Check(leveldb::DB::Open(options, dir, &opened));
        db.reset(opened);
    }
};

leveldb::Options Sizes(uint64_t coins)
{
    leveldb::Options options;
    options.write_buffer_size = std::max<uint64_t>(WRITE_BUFFER * coins / MAINNET_COINS, 64 << 10);
    options.max_file_size = std::max<uint64_t>(TABLE * coins / MAINNET_COINS, 1 << 20);
    options.max_bytes_for_level_base = LEVEL_BASE * coins / MAINNET_COINS;
    return options;
}

void Put(leveldb::DB& db, uint64_t first, uint64_t last)
{
    leveldb::WriteBatch batch;
    for (uint64_t serial{first}; serial < last; ++serial) {
        batch.Put(Key(serial), std::string(VALUE_SIZE, 'v'));
        if (batch.ApproximateSize() < (1 << 20) && serial + 1 < last) continue;
        Check(db.Write({}, &batch));
        batch.Clear();
    }
}

//! Coins come in random order of their keys.
void Make(const std::string& dir, uint64_t coins, int bits)
{
    std::filesystem::remove_all(dir);
    leveldb::Options options{Sizes(coins)};
    {
        Database database{dir, options, bits};
        Put(*database.db, 0, coins);
    }
    // Opening it again makes tables of the log. Then nothing may be left to compact: none of the
    // variants shall find another database than the others.
    Database database{dir, options, bits};
    std::string before, after;
    for (;;) {
        database.db->GetProperty("leveldb.sstables", &before);
        std::this_thread::sleep_for(std::chrono::seconds{10});
        database.db->GetProperty("leveldb.sstables", &after);
        if (before == after) break;
    }
}

//! Of the database's files nothing is in memory afterwards.
void Forget(const std::string& dir)
{
    for (const auto& entry : std::filesystem::directory_iterator{dir}) {
        const int fd{open(entry.path().c_str(), O_RDONLY | O_CLOEXEC)};
        if (fd < 0) continue;
        fdatasync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

using Clock = std::chrono::steady_clock;
double Since(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Cost {
    long faults;
    uint64_t requests, sectors;
    double cpu;

    //! "stat": the device's file /sys/block/*/stat
    static Cost Now(const char* stat)
    {
        rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        Cost cost{usage.ru_majflt, 0, 0, 0};
        const auto seconds{
            [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; }};
        cost.cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
        unsigned long long requests{0}, merges{0}, sectors{0};
        if (FILE* file{std::fopen(stat, "r")}) {
            if (std::fscanf(file, "%llu %llu %llu", &requests, &merges, &sectors) != 3)
                requests = sectors = 0;
            std::fclose(file);
        }
        cost.requests = requests;
        cost.sectors = sectors;
        return cost;
    }
};

template <typename Function>
void Measure(const char* what, uint64_t number, Function look)
{
    const char* const stat{std::getenv("DEVICE_STAT") ? std::getenv("DEVICE_STAT") : ""};
    const Cost before{Cost::Now(stat)};
    const auto start{Clock::now()};
    g_looking = true;
    for (uint64_t i{0}; i < number; ++i) look(i);
    g_looking = false;
    const double seconds{Since(start)};
    const Cost after{Cost::Now(stat)};
    const double n{static_cast<double>(number)};
    std::printf("\"%s\": {\"faults\": %.3f, \"requests\": %.3f, \"kib\": %.2f, "
                "\"us\": %.1f, \"cpu_us\": %.1f}",
                what, double(after.faults - before.faults) / n,
                double(after.requests - before.requests) / n,
                double(after.sectors - before.sectors) / 2 / n, seconds / n * 1e6,
                (after.cpu - before.cpu) / n * 1e6);
}

void Read(const Variant& variant, const std::string& dir, uint64_t coins, uint64_t lookups)
{
    Forget(dir);
    Env env{variant.block};
    leveldb::Options options{Sizes(coins)};
    options.env = &env;
    options.optimize_filters_for_hits = variant.hits;
    options.advise_random_on_open = variant.random;
    Database database{dir, options};
    std::mt19937_64 random{1};
    leveldb::ReadOptions read;
    read.verify_checksums = true;
    std::string value;
    const auto hit{[&](uint64_t) { Check(database.db->Get(read, Key(random() % coins), &value)); }};
    const auto miss{[&](uint64_t) {
        if (!database.db->Get(read, Key(coins + random() % coins), &value).IsNotFound())
            Die("a coin was found that was never written");
    }};
    std::printf("{\"variant\": \"%s\", ", variant.name);
    Measure("start", lookups / 4, hit); // with the indexes and filters of tables that are opened
    std::printf(", ");
    Measure("hit", lookups, hit);
    std::printf(", ");
    Measure("miss", lookups / 2, miss);
    std::printf(", ");
    leveldb::ReadOptions scan{read};
    scan.fill_cache = false;
    const std::unique_ptr<leveldb::Iterator> iterator{database.db->NewIterator(scan)};
    uint64_t seen{0};
    Measure("scan", 1, [&](uint64_t) {
        g_looking = false;
        for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++seen;
    });
    Check(iterator->status());
    if (seen != coins) Die("the scan saw another number of coins");
    std::string files;
    for (int level{0}; level < 7; ++level) {
        std::string number;
        database.db->GetProperty("leveldb.num-files-at-level" + std::to_string(level), &number);
        files += (level ? ", " : "") + number;
    }
    std::printf(", \"files\": [%s]}\n", files.c_str());
}

//! A block index' writes of 300 KB, each synced, while 130 MB of another database are compacted
void Wait(bool own, const std::string& dir)
{
    constexpr uint64_t COINS{2'000'000};
    leveldb::Env* const shared{leveldb::Env::Default()};
    const std::unique_ptr<leveldb::Env> big_env{own ? leveldb::NewThreadEnv(shared) : nullptr};
    const std::unique_ptr<leveldb::Env> small_env{own ? leveldb::NewThreadEnv(shared) : nullptr};
    std::filesystem::remove_all(dir + "-big");
    std::filesystem::remove_all(dir + "-small");
    leveldb::Options options;
    options.max_file_size = TABLE;
    options.write_buffer_size = WRITE_BUFFER;
    if (own) options.env = big_env.get();
    Database big{dir + "-big", options};
    Put(*big.db, 0, COINS);
    options.write_buffer_size = 512 << 10;
    if (own) options.env = small_env.get();
    Database small{dir + "-small", options};
    std::vector<double> waits;
    std::atomic<bool> done{false};
    std::thread compaction{[&] {
        for (int i{0}; i < 3; ++i) {
            Put(*big.db, COINS, COINS + 1000); // so that there is something to do
            big.db->CompactRange(nullptr, nullptr);
        }
        done = true;
    }};
    leveldb::WriteOptions sync;
    sync.sync = true;
    std::mt19937_64 random{1};
    while (!done) {
        leveldb::WriteBatch batch;
        while (batch.ApproximateSize() < 300'000) batch.Put(Key(random()), std::string(100, 'v'));
        const auto start{Clock::now()};
        Check(small.db->Write(sync, &batch));
        waits.push_back(Since(start) * 1e3);
        std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
    compaction.join();
    std::sort(waits.begin(), waits.end());
    std::printf("{\"variant\": \"%s\", \"writes\": %zu, \"median_ms\": %.1f, \"most_ms\": %.1f}\n",
                own ? "wait-own" : "wait-shared", waits.size(), waits[waits.size() / 2],
                waits.back());
}
} // namespace

int main(int argc, char** argv)
{
    const std::string mode{argc > 1 ? argv[1] : ""};
    if (argc == 3 && (mode == "wait-own" || mode == "wait-shared")) {
        Wait(mode == "wait-own", argv[2]);
        return 0;
    }
    const uint64_t coins{argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0};
    const int bits{argc > 4 ? std::atoi(argv[4]) : 10};
    if (coins >= 100'000 && (argc == 4 || argc == 5) && mode == "make" && bits > 0 && bits < 100) {
        Make(argv[2], coins, bits);
        return 0;
    }
    const uint64_t lookups{argc == 5 ? std::strtoull(argv[4], nullptr, 10) : 0};
    for (const auto& variant : VARIANTS) {
        if (coins < 100'000 || lookups < 4 || mode != variant.name) continue;
        Read(variant, argv[2], coins, lookups);
        return 0;
    }
    Die("usage: leveldb-reads make DIR COINS [BITS] | VARIANT DIR COINS LOOKUPS |"
        " wait-shared|wait-own DIR, with 100000 coins or more");
}
