// Makes a regtest chain whose coins live as mainnet's do, for benchmarks and for tests that need
// a node with much to write: docs/develop/bench-chain.md has what is in it; support/chaingen.
// The same options give the same bytes, on every machine.

#include "coins.h"

#include <arith_uint256.h>
#include <common/args.h>
#include <consensus/consensus.h>
#include <consensus/merkle.h>
#include <consensus/validation.h>
#include <crypto/muhash.h>
#include <crypto/sha256.h>
#include <hash.h>
#include <kernel/chainparams.h>
#include <primitives/block.h>
#include <streams.h>
#include <tinyformat.h>
#include <univalue.h>
#include <util/strencodings.h>
#include <util/translation.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

const TranslateFn G_TRANSLATION_FUN{nullptr};

namespace {
//! Blocks with nothing but a coinbase at the beginning: coins to start with, which have to
//! mature for 100 blocks, and time for a node to learn all headers before a script matters.
constexpr int LEAD{200};
//! Almost two weeks of blocks have to lie above a block before -assumevalid spares its scripts:
//! 2016, and one more, in ConnectBlock(); a few to spare.
constexpr int TAIL_SIGNED{2100};
//! Seconds between blocks, as on mainnet. Genesis is of 2011: no chain gets into the future.
constexpr uint32_t SPACING{600};
//! Satoshis of the smallest output, near to what relaying nodes call dust.
constexpr CAmount AMOUNT_MIN{300};
//! Room that is left in a block, for the coinbase and for the largest transaction made here.
constexpr int64_t WEIGHT_SPARE{200'000};
constexpr int64_t SIGOPS_SPARE{16'000};
//! Of a thousand transactions, those with an OP_RETURN output.
constexpr unsigned OP_RETURN_PERMILLE{20};
//! Most inputs, and most outputs, of a transaction; the least are 5.
constexpr int64_t CONSOLIDATION_MAX{80}, FANOUT_MAX{80};

struct Options {
    std::string out;
    int64_t blocks, txs, utxos, seed, old, day, day_old, tail;
    bool open, muhash;
};

/** Ages of spent coins, in blocks. Mainnet's shares; sources: docs/develop/bench-chain.md. */
struct Band {
    int from, to;
    unsigned permille; //!< of all inputs; the rest is drawn from the whole UTXO set
};
constexpr std::array<Band, 3> BANDS{{{0, 6, 344}, {7, 144, 456}, {145, 4320, 150}}};
constexpr unsigned OLD_PERMILLE{50};

[[noreturn]] void Die(const std::string& sentence)
{
    tfm::format(std::cerr, "chaingen: %s\n", sentence);
    std::exit(EXIT_FAILURE);
}

/** Draws ages of the coins to spend: which band, by the shares; within it an age a with 1/(a+1). */
class Ages
{
    std::vector<uint64_t> m_sums; //!< of the ages' weights; whole numbers are the same everywhere

    uint64_t Sum(int age) const { return age < 0 ? 0 : m_sums[age]; }

public:
    Ages()
    {
        uint64_t sum{0};
        for (int age{0}; age <= BANDS.back().to; ++age)
            m_sums.push_back(sum += (uint64_t{1} << 40) / (age + 1));
    }

    /** No value: one of all coins, as so many of a thousand are. */
    std::optional<int> Draw(unsigned old_permille, InsecureRandomContext& rng) const
    {
        if (rng.randrange(1000U) < old_permille) return std::nullopt;
        unsigned draw{rng.randrange(1000U - OLD_PERMILLE)};
        const Band* band{BANDS.begin()};
        for (; draw >= band->permille; ++band) draw -= band->permille;
        const uint64_t below{Sum(band->from - 1)};
        const uint64_t weight{below + rng.randrange(Sum(band->to) - below)};
        return int(std::ranges::upper_bound(m_sums, weight) - m_sums.begin());
    }
};

/** The chain so far, the coins in it, and figures about it. */
class Chain
{
    const Options m_options;
    const std::unique_ptr<const CChainParams> m_params{CChainParams::RegTest({})};
    InsecureRandomContext m_rng;
    const Scripts m_scripts;
    const Ages m_ages;
    const int m_top;
    CoinPool m_pool;
    std::vector<Coin> m_coinbases; //!< by height; with index 0 for genesis, whose output is no coin
    CBlockHeader m_tip;
    const std::filesystem::path m_part; //!< the file, until it is whole
    std::ofstream m_file;
    uint64_t m_bytes{0}, m_txs{0}, m_inputs{0}, m_outputs{0}, m_op_returns{0}, m_full{0};
    int64_t m_utxos{0};
    CAmount m_fees{0};
    std::map<int, uint64_t> m_by_age; //!< number of inputs, by the upper end of AGE_STEPS

    static constexpr std::array AGE_STEPS{
        0, 1, 6, 144, 1008, 4320, std::numeric_limits<int>::max()};

    [[noreturn]] void Fail(const std::string& why) const
    {
        std::error_code ignored;
        std::filesystem::remove(m_part, ignored);
        Die("no chain in '" + m_options.out + "': " + why);
    }

    ScriptKind DrawKind()
    {
        unsigned draw{m_rng.randrange(1000U)};
        const ScriptShare* share{SCRIPT_SHARES.begin()};
        for (; draw >= share->permille; ++share) draw -= share->permille;
        return share->kind;
    }

    /** Of a thousand inputs of a block, those that are drawn from all coins. */
    unsigned OldPermille(int height) const
    {
        const bool last_day{height > LEAD + m_options.blocks - m_options.day};
        return unsigned(10 * (last_day ? m_options.day_old : m_options.old));
    }

    Coin TakeCoin(int height)
    {
        const std::optional<int> age{m_ages.Draw(OldPermille(height), m_rng)};
        const auto [born, coin]{age && *age < height
            ? m_pool.TakeFrom(height - *age, m_rng) : m_pool.TakeAny(m_rng)};
        ++m_by_age[*std::ranges::lower_bound(AGE_STEPS, height - born)];
        ++m_inputs;
        --m_utxos;
        return coin;
    }

    /** Spends up to so many coins into up to so many outputs; no more than there are, or can be. */
    CTransactionRef Transaction(int height, size_t inputs, size_t outputs, int64_t& sigops)
    {
        CMutableTransaction tx;
        CAmount amount{0};
        inputs = std::min(inputs, m_pool.Size());
        tx.vin.reserve(inputs);
        for (size_t i{0}; i < inputs; ++i) {
            const Coin coin{TakeCoin(height)};
            CTxIn& input{tx.vin.emplace_back(
                COutPoint{coin.txid, coin.n}, CScript{}, CTxIn::MAX_SEQUENCE_NONFINAL - 1)};
            m_scripts.Spend(coin, input);
            amount += coin.amount;
            sigops += Scripts::SigOpsCostInput(coin.kind);
        }
        const CAmount fee{std::min<CAmount>(amount / 100, 200 + m_rng.randrange(2000))};
        m_fees += fee;
        amount -= fee;

        outputs = std::clamp<CAmount>(amount / (2 * AMOUNT_MIN), 1, outputs);
        std::vector<Coin> coins;
        coins.reserve(outputs);
        tx.vout.reserve(outputs + 1);
        for (size_t left{outputs}; left > 0; --left) {
            CAmount part{amount};
            if (left > 1) {
                part =
                    std::clamp<CAmount>(m_rng.randrange(2 * amount / CAmount(left)), AMOUNT_MIN,
                        amount - AMOUNT_MIN * CAmount(left - 1));
            }
            amount -= part;
            const Coin& coin{coins.emplace_back(
                Coin{.txid = {}, .amount = part, .salt = m_rng.rand64(),
                .n = uint32_t(coins.size()), .kind = DrawKind(), .coinbase = false})};
            tx.vout.emplace_back(part, m_scripts.Output(coin.kind, coin.salt));
            sigops += Scripts::SigOpsCostOutput(coin.kind);
        }
        if (m_rng.randrange(1000U) < OP_RETURN_PERMILLE) {
            tx.vout.emplace_back(0, CScript{} << OP_RETURN
                << m_rng.randbytes<unsigned char>(20 + m_rng.randrange(61)));
            ++m_op_returns;
        }
        CTransactionRef made{MakeTransactionRef(std::move(tx))};
        for (Coin& coin : coins) {
            coin.txid = made->GetHash();
            m_pool.Add(height, coin);
        }
        m_outputs += coins.size();
        m_utxos += coins.size();
        return made;
    }

    /** How many UTXOs there should be after so many of the filled blocks: most are there after a
        third. */
    int64_t Goal(int64_t blocks) const
    {
        const int64_t all{m_options.blocks}, utxos{m_options.utxos + CONSOLIDATION_MAX};
        return blocks * 3 < all ? utxos * 27 * blocks / (all * 10)
            : utxos * 9 / 10 + utxos * (blocks * 3 - all) / (all * 20);
    }

    /** Fills a block: payments, consolidations and fan-outs, as many as keep the UTXO set near its
        goal. */
    void Fill(CBlock& block, int height)
    {
        const int64_t index{height - LEAD};
        const int64_t goal{Goal(index)};
        // How far from it, which shrinks to nothing at the end
        const int64_t slack{
            std::min({m_options.utxos / 200, goal / 4,
                (m_options.blocks - index) * m_options.utxos / 10'000})};
        // Of a thousand transactions; one block in ten is of people who put coins together, one
        // of services that pay.
        unsigned consolidations{30}, fanouts{30};
        const unsigned mood{m_rng.randrange(10U)};
        if (mood == 0) consolidations = 300;
        if (mood == 1) fanouts = 300;

        int64_t weight{0}, sigops{0};
        for (int64_t i{0}; i < m_options.txs; ++i) {
            if (weight > MAX_BLOCK_WEIGHT - WEIGHT_SPARE ||
                sigops > MAX_BLOCK_SIGOPS_COST - SIGOPS_SPARE) {
                ++m_full;
                break;
            }
            const unsigned draw{m_rng.randrange(1000U)};
            size_t inputs, outputs;
            if (m_utxos < goal - slack || (draw < fanouts && m_utxos < goal + slack)) {
                inputs = 1 + m_rng.randrange(2U);
                outputs = 5 + m_rng.randrange(FANOUT_MAX - 4);
            } else if (m_utxos > goal + slack || draw >= 1000 - consolidations) {
                inputs = 5 + m_rng.randrange(CONSOLIDATION_MAX - 4);
                outputs = 1;
            } else {
                const unsigned in{m_rng.randrange(100U)}, out{m_rng.randrange(100U)};
                inputs = in < 35 ? 1 : in < 90 ? 2 : 3;
                outputs = out < 15 ? 1 : out < 90 ? 2 : 3;
            }
            const CTransactionRef tx{Transaction(height, inputs, outputs, sigops)};
            weight += GetTransactionWeight(*tx);
            block.vtx.push_back(tx);
        }
    }

    CAmount Subsidy(int height) const
    {
        const int halvings{height / m_params->GetConsensus().nSubsidyHalvingInterval};
        return halvings < 64 ? 50 * COIN >> halvings : 0;
    }

    CTransactionRef Coinbase(const CBlock& block, int height)
    {
        Coin coin{.txid = {}, .amount = Subsidy(height) + m_fees,
            .salt = m_rng.rand64(), .n = 0, .kind = ScriptKind::P2WPKH, .coinbase = true};
        CMutableTransaction tx;
        tx.vin.emplace_back(COutPoint{},
            CScript{} << height << CScriptNum::serialize(m_options.seed));
        tx.vout.emplace_back(coin.amount, m_scripts.Output(coin.kind, coin.salt));
        if (block.vtx.size() > 1) {
            // BIP 141: the hash of the witness root and of the reserved value, here 32 zeros
            const uint256 root{BlockWitnessMerkleRoot(block)};
            uint256 commitment;
            CHash256{}.Write(root).Write(uint256::ZERO).Finalize(commitment);
            std::vector<unsigned char> data{0xaa, 0x21, 0xa9, 0xed};
            data.insert(data.end(), commitment.begin(), commitment.end());
            tx.vout.emplace_back(0, CScript{} << OP_RETURN << data);
            tx.vin[0].scriptWitness.stack = {std::vector<unsigned char>(32)};
        }
        CTransactionRef made{MakeTransactionRef(std::move(tx))};
        coin.txid = made->GetHash();
        m_coinbases.push_back(coin);
        ++m_outputs;
        ++m_utxos;
        m_fees = 0;
        return made;
    }

    void Write(const CBlock& block)
    {
        DataStream stream;
        stream << TX_WITH_WITNESS(block);
        DataStream head;
        head << m_params->MessageStart() << uint32_t(stream.size());
        m_file.write(reinterpret_cast<const char*>(head.data()), head.size());
        m_file.write(reinterpret_cast<const char*>(stream.data()), stream.size());
        m_bytes += head.size() + stream.size();
        m_txs += block.vtx.size();
        m_tip = block;
    }

    void AddBlock(int height)
    {
        CBlock block;
        block.vtx.emplace_back(); // the coinbase's place: its witness hash counts as zero
        if (height > COINBASE_MATURITY)
            m_pool.Add(height - COINBASE_MATURITY, m_coinbases[height - COINBASE_MATURITY]);
        if (height > LEAD && height <= LEAD + m_options.blocks) Fill(block, height);
        block.vtx[0] = Coinbase(block, height);
        block.nVersion = 0x20000000;
        block.hashPrevBlock = m_tip.GetHash();
        block.hashMerkleRoot = BlockMerkleRoot(block);
        block.nTime = m_tip.nTime + SPACING;
        block.nBits = m_tip.nBits;
        const arith_uint256 target{arith_uint256{}.SetCompact(block.nBits)};
        while (UintToArith256(block.GetHash()) > target) ++block.nNonce;
        Write(block);
    }

    /** The hash that gettxoutsetinfo muhash gives at the tip, see ApplyCoinHash() of
        kernel/coinstats.cpp. */
    uint256 MuHash() const
    {
        tfm::format(std::cerr, "hashing %d UTXOs; -muhash=0 leaves it out\n", m_utxos);
        MuHash3072 hash;
        const auto insert{[&](int height, const Coin& coin) {
            DataStream stream;
            stream << COutPoint{coin.txid, coin.n}
                << ((uint32_t(height) << 1) | uint32_t{coin.coinbase})
                   << CTxOut{coin.amount, m_scripts.Output(coin.kind, coin.salt)};
            hash.Insert(MakeUCharSpan(stream));
        }};
        for (int height{1}; height <= m_top; ++height) {
            for (const Coin& coin : m_pool.At(height)) insert(height, coin);
            if (height > m_top - COINBASE_MATURITY) insert(height, m_coinbases[height]);
        }
        uint256 result;
        hash.Finalize(result);
        return result;
    }

public:
    explicit Chain(const Options& options)
        : m_options{options},
          m_rng{uint64_t(options.seed)},
          m_scripts{options.open, m_rng},
          m_top{int(LEAD + options.blocks + options.tail)},
          m_pool{m_top + 1},
          m_coinbases(1),
          m_part{options.out + ".new"},
          m_file{m_part, std::ios::binary | std::ios::trunc}
    {
        if (!m_file)
            Die("the file '" + m_part.string() + "' cannot be written; "
                "name one in a folder that exists with -out=");
    }

    /** Writes the chain to the file, which has its name when it is whole. */
    void Make()
    {
        Write(m_params->GenesisBlock());
        auto said{std::chrono::steady_clock::now()};
        for (int height{1}; height <= m_top; ++height) {
            AddBlock(height);
            if (const auto now{std::chrono::steady_clock::now()};
                now - said > std::chrono::seconds{5} || height == m_top) {
                said = now;
                tfm::format(std::cerr, "block %d of %d, %d UTXOs, %d MB\n",
                    height, m_top, m_utxos, m_bytes / 1'000'000);
            }
            if (!m_file) Fail("it could not be written; is the disk full?");
        }
        m_file.close();
        if (!m_file) Fail("it could not be written; is the disk full?");
        if (m_utxos < m_options.utxos) {
            Fail(strprintf("it ends with %d UTXOs instead of %d, too many for so few transactions; "
                "raise -blocks= or -txs=",
                m_utxos, m_options.utxos));
        }
        std::error_code error;
        std::filesystem::rename(m_part, m_options.out, error);
        if (error) Fail("it could not be named so: " + error.message());
    }

    UniValue Summary() const
    {
        UniValue ages{UniValue::VARR};
        int from{0};
        for (const int to : AGE_STEPS) {
            UniValue step{UniValue::VOBJ};
            const auto count{m_by_age.find(to)};
            const uint64_t inputs{count == m_by_age.end() ? 0 : count->second};
            step.pushKV("from", from);
            if (to != AGE_STEPS.back()) step.pushKV("to", to);
            step.pushKV("inputs", inputs);
            step.pushKV("share", m_inputs ? double(inputs) / double(m_inputs) : 0.0);
            ages.push_back(step);
            from = to + (to != AGE_STEPS.back());
        }
        UniValue summary{UniValue::VOBJ};
        summary.pushKV("seed", m_options.seed);
        summary.pushKV("scripts", m_options.open ? "open" : "signed");
        summary.pushKV("height", m_top);
        summary.pushKV("best_block", m_tip.GetHash().GetHex());
        summary.pushKV("filled_blocks", m_options.blocks);
        summary.pushKV("full_blocks", m_full);
        summary.pushKV("tail", m_options.tail);
        if (m_options.day) summary.pushKV("day", m_options.day);
        summary.pushKV("transactions", m_txs);
        summary.pushKV("inputs", m_inputs);
        summary.pushKV("outputs", m_outputs);
        summary.pushKV("op_returns", m_op_returns);
        summary.pushKV("utxos", m_utxos);
        summary.pushKV("bytes", m_bytes);
        if (m_options.muhash) summary.pushKV("muhash", MuHash().GetHex());
        summary.pushKV("input_ages", ages);
        return summary;
    }
};

/** A whole number of the command line; ends the program with a sentence if it is none. */
int64_t Number(const ArgsManager& args, const std::string& name, int64_t standard,
    int64_t min, int64_t max)
{
    const auto text{args.GetArg(name)};
    if (!text) return standard;
    const auto number{ToIntegral<int64_t>(*text)};
    if (!number || *number < min || *number > max) {
        Die(strprintf("%s=%s is out of range; give a whole number from %d to %d",
            name, *text, min, max));
    }
    return *number;
}

Options Parse(int argc, char* argv[])
{
    ArgsManager args;
    SetupHelpOptions(args);
    const auto add{[&](const std::string& name, const std::string& help) {
        args.AddArg(name, help, ArgsManager::ALLOW_ANY |
            ArgsManager::DISALLOW_NEGATION, OptionsCategory::OPTIONS);
    }};
    add("-out=<file>",
        "File for the chain, in the format of bitcoind's block files: "
        "-loadblock takes it, and lab/block_server.py");
    add("-blocks=<n>", "Number of blocks with transactions (default: 2000)");
    add("-txs=<n>",
        "Transactions in each of them; fewer when a block is full before (default: 2500)");
    add("-utxos=<n>", "Number of UTXOs at the end, or a few more (default: 3000000)");
    add("-seed=<n>", "Another chain of the same kind (default: 1)");
    add("-old=<percent>",
        "Share of inputs that are drawn from the whole UTXO set (default: 5, as on mainnet)");
    add("-day=<n>",
        "Number of the last blocks with transactions that are of another kind: the day of the "
        "benchmark of the tip (default: 0)");
    add("-dayold=<percent>",
        "Share of the day's inputs that are drawn from the whole UTXO set (default: 33)");
    add("-scripts=<signed|open>",
        "signed: mainnet's types with signatures made up, for nodes with "
        "-assumevalid=<best_block>; open: nothing is signed, "
        "and every node takes it (default: signed)");
    add("-tail=<n>",
        "Blocks with a coinbase only at the end (default: 2100 for signed, "
        "which -assumevalid needs; 0 for open)");
    add("-muhash=<0|1>",
        "Hash of the UTXO set at the end, as gettxoutsetinfo muhash gives it (default: 1)");
    std::string error;
    if (!args.ParseParameters(argc, argv, error)) Die(error + "; -help lists the options");
    if (HelpRequested(args)) {
        std::cout << "Makes a regtest chain whose coins live as mainnet's do; "
            "a summary in JSON goes to stdout.\n\n"
            << args.GetHelpMessage();
        std::exit(EXIT_SUCCESS);
    }
    Options options;
    options.out = args.GetArg("-out", "");
    if (options.out.empty()) Die("-out= is missing; name the file for the chain");
    const std::string scripts{args.GetArg("-scripts", "signed")};
    if (scripts != "signed" && scripts != "open")
        Die("-scripts=" + scripts + " is unknown; use signed or open");
    options.open = scripts == "open";
    options.blocks = Number(args, "-blocks", 2000, 1, 400'000);
    options.txs = Number(args, "-txs", 2500, 1, 20'000);
    options.utxos = Number(args, "-utxos", 3'000'000, 100, 1'000'000'000);
    options.seed = Number(args, "-seed", 1, 0, std::numeric_limits<int64_t>::max());
    options.old = Number(args, "-old", OLD_PERMILLE / 10, 0, 100);
    options.day = Number(args, "-day", 0, 0, options.blocks);
    options.day_old = Number(args, "-dayold", 33, 0, 100);
    options.tail = Number(args, "-tail", options.open ? 0 : TAIL_SIGNED, 0, 100'000);
    options.muhash = Number(args, "-muhash", 1, 0, 1);
    return options;
}
} // namespace

int main(int argc, char* argv[])
{
    const Options options{Parse(argc, argv)};
    SHA256AutoDetect();
    Chain chain{options};
    chain.Make();
    std::cout << chain.Summary().write(2) << std::endl;
    return EXIT_SUCCESS;
}
