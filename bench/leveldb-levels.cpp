// Measures what LevelDB writes and reads for changes as a chainstate makes them, with its own
// levels and with those of the patch queue (0021, 0022; with the filters of 0024), these also with
// its larger write buffers (0023), and with sorted flushes (0037). Prints a Markdown table.
//
// usage: leveldb-levels DIR [COINS]     (make bench-leveldb; DIR needs 1 KiB for each 2 coins)
//   COINS  coins there are all the time, default 3000000
//
// A record is a coin's: key 34 bytes, as good as random; value 28 bytes. Each flush adds one coin
// and spends one, so often that 1.5 % of the coins change: what a cache of 450 MiB does to
// mainnet's; at the tip 0.02 %, an hour's blocks. Afterwards as many coins are looked up as were
// spent. All that LevelDB has a fixed size for is made smaller, as mainnet's 170 million coins are
// more than these; but for its tables, which cannot be smaller than 1 MiB (the node's have 32 MiB),
// its write buffer, 64 KiB at least, and the looks that it allows at a table, 100 at least:
// compactions because of lookups are counted too low.
// Measured after as many flushes that are not. Nothing is synced: bytes are counted, not time. Each
// batch waits for the compactions that it causes, so that the bytes are the same in each run,
// however fast processor and disk are. But where lookups cause compactions, too, each of those
// leads to more: there nothing is waited for, and it is by chance how much is written while keys
// are looked up.

#include "leveldb-coins.h"

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {
//! A flush of a cache of 450 MiB is 150 MB, in batches of 32 MiB (-dbbatchsize's default)
constexpr uint64_t MAINNET_BATCH{32 << 20};
//! A fourth of the coins' database cache, for which Core takes 8 MiB at most
constexpr uint64_t CORE_WRITE_BUFFER{2 << 20};
//! Cairn's (patch 0023), from -dbcache=128 on
constexpr uint64_t LARGER_WRITE_BUFFER{16 << 20};
//! LevelDB makes a smaller one as large as this.
constexpr uint64_t LEAST_WRITE_BUFFER{64 << 10};
constexpr uint64_t MAINNET_LEVEL_BASE{10 << 20};
//! Cairn's (patch 0021)
constexpr uint64_t LARGER_LEVEL_BASE{20 << 20};

struct Counters {
    std::atomic<uint64_t> tables{0}, logs{0}, reads{0};
};

class WritableFile : public leveldb::WritableFile
{
    const std::unique_ptr<leveldb::WritableFile> m_file;
    std::atomic<uint64_t>& m_bytes;

public:
    WritableFile(leveldb::WritableFile* file, std::atomic<uint64_t>& bytes)
        : m_file{file}, m_bytes{bytes} {}
    leveldb::Status Append(const leveldb::Slice& data) override
    {
        m_bytes += data.size();
        return m_file->Append(data);
    }
    leveldb::Status Close() override { return m_file->Close(); }
    leveldb::Status Flush() override { return m_file->Flush(); }
    leveldb::Status Sync() override { return m_file->Flush(); }
    std::string GetName() const override { return m_file->GetName(); }
};

//! Set while keys are looked up: compactions read on a thread of their own
thread_local bool g_looking{false};

class RandomAccessFile : public leveldb::RandomAccessFile
{
    const std::unique_ptr<leveldb::RandomAccessFile> m_file;
    std::atomic<uint64_t>& m_reads;

public:
    RandomAccessFile(leveldb::RandomAccessFile* file, std::atomic<uint64_t>& reads)
        : m_file{file}, m_reads{reads} {}
    leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
        char* scratch) const override
    {
        if (g_looking) ++m_reads;
        return m_file->Read(offset, n, result, scratch);
    }
    std::string GetName() const override { return m_file->GetName(); }
};

class Env : public leveldb::EnvWrapper
{
    struct Work {
        Env& env;
        void (*const function)(void*);
        void* const argument;
    };

    Counters& m_counters;
    //! Compactions that are waiting or at work. One asks for the next before it ends.
    std::atomic<int> m_compactions{0};

    static void Run(void* argument)
    {
        const std::unique_ptr<Work> work{static_cast<Work*>(argument)};
        work->function(work->argument);
        --work->env.m_compactions;
        work->env.m_compactions.notify_all();
    }

public:
    explicit Env(Counters& counters) : EnvWrapper{leveldb::Env::Default()}, m_counters{counters} {}
    ~Env() override { WaitForCompactions(); }
    void Schedule(void (*function)(void*), void* argument) override
    {
        ++m_compactions;
        target()->Schedule(Run, new Work{*this, function, argument});
    }
    void WaitForCompactions() const
    {
        while (const int number{m_compactions}) m_compactions.wait(number);
    }
    leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override
    {
        const leveldb::Status status{target()->NewWritableFile(name, file)};
        if (status.ok())
            *file = new WritableFile{
                *file, name.ends_with(".log") ? m_counters.logs : m_counters.tables};
        return status;
    }
    leveldb::Status NewRandomAccessFile(const std::string& name,
        leveldb::RandomAccessFile** file) override
    {
        const leveldb::Status status{target()->NewRandomAccessFile(name, file)};
        if (status.ok()) *file = new RandomAccessFile{*file, m_counters.reads};
        return status;
    }
};

double ThreadSeconds()
{
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
}

/** A coin is added if there is a value. */
using Changes = std::map<std::string, bool>;

class SortedChanges : public leveldb::SortedChanges
{
    const Changes& m_changes;
    Changes::const_iterator m_next{m_changes.begin()}, m_at{};
    const std::string m_value = std::string(VALUE_SIZE, 'v');

public:
    explicit SortedChanges(const Changes& changes) : m_changes{changes} {}
    bool Next() override
    {
        if (m_next == m_changes.end()) return false;
        m_at = m_next++;
        return true;
    }
    leveldb::Slice key() const override { return m_at->first; }
    bool deleted() const override { return !m_at->second; }
    leveldb::Slice value() const override { return m_value; }
};

class Chainstate
{
    const uint64_t m_batch;
    const bool m_wait, m_sorted;
    Counters m_counters;
    Env m_env{m_counters};
    const std::unique_ptr<leveldb::Cache> m_cache{leveldb::NewLRUCache(4 << 20)};
    const std::unique_ptr<const leveldb::FilterPolicy> m_filter{leveldb::NewBloomFilterPolicy(10)};
    std::unique_ptr<leveldb::DB> m_db;
    std::mt19937_64 m_random{1};
    std::vector<uint64_t> m_coins;
    uint64_t m_serial{0};
    uint64_t m_changed{0};
    uint64_t m_lookups{0};
    double m_seconds{0};

    void Write(leveldb::WriteBatch& batch)
    {
        Check(m_db->Write({}, &batch));
        if (m_wait) m_env.WaitForCompactions();
    }

    void FlushSorted(uint64_t added, uint64_t spent)
    {
        Changes changes;
        for (uint64_t i{0}; i < std::max(added, spent); ++i) {
            if (i < added) {
                m_coins.push_back(++m_serial);
                changes[Key(m_serial)] = true;
                m_changed += KEY_SIZE + VALUE_SIZE;
            }
            if (i < spent) {
                std::swap(m_coins[m_random() % m_coins.size()], m_coins.back());
                changes[Key(m_coins.back())] = false;
                m_coins.pop_back();
                m_changed += KEY_SIZE;
            }
        }
        SortedChanges sorted{changes};
        Check(m_db->WriteSorted({}, &sorted));
        if (m_wait) m_env.WaitForCompactions();
    }

    void Flush(uint64_t added, uint64_t spent)
    {
        if (m_sorted) return FlushSorted(added, spent);
        leveldb::WriteBatch batch;
        for (uint64_t i{0}; i < std::max(added, spent); ++i) {
            if (i < added) {
                m_coins.push_back(++m_serial);
                batch.Put(Key(m_serial), std::string(VALUE_SIZE, 'v'));
                m_changed += KEY_SIZE + VALUE_SIZE;
            }
            if (i < spent) {
                std::swap(m_coins[m_random() % m_coins.size()], m_coins.back());
                batch.Delete(Key(m_coins.back()));
                m_coins.pop_back();
                m_changed += KEY_SIZE;
            }
            if (batch.ApproximateSize() < m_batch) continue;
            Write(batch);
            batch.Clear();
        }
        Write(batch);
    }

    void LookUp(uint64_t number)
    {
        g_looking = true;
        const double start{ThreadSeconds()};
        std::string value;
        for (uint64_t i{0}; i < number; ++i)
            Check(m_db->Get({}, Key(m_coins[m_random() % m_coins.size()]), &value));
        m_seconds += ThreadSeconds() - start;
        m_lookups += number;
        g_looking = false;
    }

public:
    Chainstate(const std::string& dir, uint64_t coins, bool cairn, bool seeks, bool sorted,
        uint64_t write_buffer)
        : m_batch{MAINNET_BATCH * coins / MAINNET_COINS}, m_wait{!seeks}, m_sorted{sorted}
    {
        leveldb::Options options;
        options.create_if_missing = true;
        options.env = &m_env;
        options.block_cache = m_cache.get();
        options.filter_policy = m_filter.get();
        options.compression = leveldb::kNoCompression;
        options.write_buffer_size = write_buffer * coins / MAINNET_COINS;
        options.max_file_size = 1 << 20;
        const uint64_t base{cairn ? LARGER_LEVEL_BASE : MAINNET_LEVEL_BASE};
        options.max_bytes_for_level_base = base * coins / MAINNET_COINS;
        options.level_compaction_dynamic_level_bytes = cairn;
        options.full_filter = cairn;
        options.seek_compaction = seeks;
        leveldb::DB* db;
        Check(leveldb::DB::Open(options, dir, &db));
        m_db.reset(db);
        for (uint64_t i{0}; i < 50; ++i) Flush(coins / 50, 0);
    }

    /** Flushes that change that part of all coins. */
    void Run(int flushes, double part)
    {
        const uint64_t pairs(double(m_coins.size()) * part / 2);
        for (int i{0}; i < flushes; ++i) {
            Flush(pairs, pairs);
            LookUp(pairs);
        }
    }

    void Reset()
    {
        m_counters.tables = m_counters.logs = m_counters.reads = 0;
        m_changed = m_lookups = 0;
        m_seconds = 0;
    }

    void Print(const char* levels, const char* phase)
    {
        std::string files;
        for (int level{0}; level < 7; ++level) {
            std::string number;
            m_db->GetProperty("leveldb.num-files-at-level" + std::to_string(level), &number);
            files += number + " ";
        }
        std::printf("| %s | %s | %.1f | %.1f | %.2f | %.1f | %s|\n", levels, phase,
                    double(m_counters.tables) / double(m_changed),
                    double(m_counters.logs) / double(m_changed),
                    double(m_counters.reads) / double(m_lookups),
                    m_seconds / double(m_lookups) * 1e6, files.c_str());
        std::fflush(stdout);
    }
};
} // namespace

int main(int argc, char** argv)
{
    const uint64_t coins{argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 3'000'000};
    if (argc < 2 || argc > 3 || coins < 100'000)
        Die("usage: leveldb-levels DIR [COINS], with 100000 coins or more");
    std::printf("%llu coins of %zu bytes; bytes of tables and of logs per byte that changed; "
                "per lookup: blocks read\n"
                "from tables, and µs of the processor; tables in each level at the end.\n\n"
                "| levels | flushes | tables | logs | reads | µs | files |\n"
                "|---|---|---|---|---|---|---|\n",
                static_cast<unsigned long long>(coins), KEY_SIZE + VALUE_SIZE);
    struct {
        const char* name;
        bool cairn, seeks, sorted;
        uint64_t write_buffer;
    } const variants[]{
        {"LevelDB's", false, true, false, CORE_WRITE_BUFFER},
        {"LevelDB's, no compactions for lookups", false, false, false, CORE_WRITE_BUFFER},
        {"Cairn's", true, false, false, CORE_WRITE_BUFFER},
        {"Cairn's, write buffers of 16 MiB", true, false, false, LARGER_WRITE_BUFFER},
        {"Cairn's, write buffers of 16 MiB, sorted", true, false, true, LARGER_WRITE_BUFFER},
    };
    for (const auto& variant : variants) {
        // With so few coins it would be the same as the one before.
        if (variant.write_buffer > CORE_WRITE_BUFFER &&
            variant.write_buffer * coins / MAINNET_COINS <= LEAST_WRITE_BUFFER)
            continue;
        const std::filesystem::path dir{std::filesystem::path{argv[1]} / "leveldb-levels"};
        std::filesystem::remove_all(dir);
        {
            Chainstate chainstate{dir.string(), coins, variant.cairn,
                variant.seeks, variant.sorted, variant.write_buffer};
            chainstate.Run(60, 0.015);
            chainstate.Reset();
            chainstate.Run(60, 0.015);
            chainstate.Print(variant.name, "initial sync");
            chainstate.Run(1500, 0.0002);
            chainstate.Reset();
            // Nearly all coins, so that each level is merged several times.
            chainstate.Run(4500, 0.0002);
            chainstate.Print(variant.name, "at the tip");
        }
        std::filesystem::remove_all(dir);
    }
}
