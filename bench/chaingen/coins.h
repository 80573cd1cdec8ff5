// The coins of a bench chain: what their scripts look like, and which of them is spent next.
#ifndef CAIRN_BENCH_CHAINGEN_COINS_H
#define CAIRN_BENCH_CHAINGEN_COINS_H

#include <consensus/amount.h>
#include <primitives/transaction.h>
#include <random.h>
#include <script/script.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

enum class ScriptKind : uint8_t { P2PKH, P2SH, P2WPKH, P2WSH, P2TR, MULTISIG };

struct ScriptShare {
    ScriptKind kind;
    std::string_view name;
    unsigned permille; //!< of all outputs that can be spent
};

/** Shares of the script types among new outputs; sources: docs/develop/bench-chain.md. */
inline constexpr std::array<ScriptShare, 6> SCRIPT_SHARES{{
    {ScriptKind::P2PKH, "p2pkh", 485},
    {ScriptKind::P2TR, "p2tr", 234},
    {ScriptKind::P2SH, "p2sh", 142},
    {ScriptKind::P2WPKH, "p2wpkh", 127},
    {ScriptKind::P2WSH, "p2wsh", 8},
    {ScriptKind::MULTISIG, "multisig", 4},
}};

/** An unspent output. Its script is not kept: it is made again from kind and salt. */
struct Coin {
    Txid txid;
    CAmount amount;
    uint64_t salt;
    uint32_t n;
    ScriptKind kind;
    bool coinbase;
};

/**
 * Scripts with the sizes and the parts that they have on mainnet.
 *
 * Signed: the types themselves, with random bytes for keys and signatures, so that only a node
 * that skips script checks (-assumevalid) accepts them. Open: nothing is signed, and every node
 * accepts them: programs of witness version 16, which has no rules yet, instead of versions 0
 * and 1, and data that is dropped instead of keys.
 */
class Scripts
{
    const bool m_open;
    InsecureRandomContext& m_rng; //!< for signatures

public:
    Scripts(bool open, InsecureRandomContext& rng) : m_open{open}, m_rng{rng} {}

    CScript Output(ScriptKind kind, uint64_t salt) const;
    /** Fills the input's scriptSig and witness. */
    void Spend(const Coin& coin, CTxIn& input) const;
    /** An upper limit of the signature operations' cost of creating and of spending such a coin. */
    static int SigOpsCostOutput(ScriptKind kind);
    static int SigOpsCostInput(ScriptKind kind);
};

/** All coins that can be spent, by the height of their block. */
class CoinPool
{
    std::vector<std::vector<Coin>> m_coins; //!< by height
    std::vector<size_t> m_tree;             //!< Fenwick tree over the numbers of coins

    void Count(int height, bool add);
    /** Number of coins with a height of at most this one. */
    size_t Below(int height) const;
    /** The height of the coin with that number in the order of heights, and its place there. */
    std::pair<int, size_t> Find(size_t rank) const;
    Coin Remove(int height, size_t index);

public:
    explicit CoinPool(int heights) : m_coins(heights), m_tree(heights + 1) {}

    size_t Size() const { return Below(int(m_coins.size()) - 1); }
    void Add(int height, const Coin& coin);
    /** Takes one of all coins, each with the same probability. Returns its height, too. */
    std::pair<int, Coin> TakeAny(InsecureRandomContext& rng);
    /** Takes one of this height's coins, or of the nearest older height that has any. */
    std::pair<int, Coin> TakeFrom(int height, InsecureRandomContext& rng);
    const std::vector<Coin>& At(int height) const { return m_coins.at(height); }
};

#endif // CAIRN_BENCH_CHAINGEN_COINS_H
