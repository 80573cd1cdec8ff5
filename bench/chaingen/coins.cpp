#include "coins.h"

#include <hash.h>

#include <algorithm>
#include <bit>
#include <cassert>

namespace {
using Bytes = std::vector<unsigned char>;

constexpr size_t KEY{33};          //!< compressed public key
constexpr size_t SIGNATURE{72};    //!< DER, with the type of hash; many are a byte shorter
constexpr size_t SCHNORR{64};

Bytes Key(InsecureRandomContext& rng)
{
    Bytes key{rng.randbytes<unsigned char>(KEY)};
    key[0] = 0x02 | (key[0] & 1);
    return key;
}

Bytes Signature(InsecureRandomContext& rng)
{
    return rng.randbytes<unsigned char>(SIGNATURE - rng.randbits(1));
}

/** One of three keys has to sign, or two; or, open, nobody, in one byte more. */
CScript Multisig(bool open, int required, InsecureRandomContext& rng)
{
    CScript script;
    if (open) {
        for (int i{0}; i < 3; ++i) script << Key(rng) << OP_DROP;
        return script << OP_TRUE;
    }
    script << required;
    for (int i{0}; i < 3; ++i) script << Key(rng);
    return script << OP_3 << OP_CHECKMULTISIG;
}

/** Half of the P2SH outputs are wrapped P2WPKH, the others 2 of 3. */
bool Wrapped(uint64_t salt) { return salt & 1; }

/** What a P2SH or P2WSH output commits to. */
CScript Redeem(bool open, ScriptKind kind, uint64_t salt)
{
    InsecureRandomContext rng{salt};
    if (kind == ScriptKind::P2SH && Wrapped(salt)) {
        return CScript{} << (open ? OP_16 : OP_0) << rng.randbytes<unsigned char>(20);
    }
    return Multisig(open, 2, rng);
}
} // namespace

CScript Scripts::Output(ScriptKind kind, uint64_t salt) const
{
    InsecureRandomContext rng{salt};
    switch (kind) {
    case ScriptKind::P2PKH:
        if (m_open) return CScript{} << rng.randbytes<unsigned char>(20) << OP_DROP << OP_TRUE;
        return CScript{} << OP_DUP << OP_HASH160 << rng.randbytes<unsigned char>(20)
            << OP_EQUALVERIFY << OP_CHECKSIG;
    case ScriptKind::P2SH: {
        const CScript redeem{Redeem(m_open, kind, salt)};
        return CScript{} << OP_HASH160 << ToByteVector(Hash160(redeem)) << OP_EQUAL;
    }
    case ScriptKind::P2WPKH:
        return CScript{} << (m_open ? OP_16 : OP_0) << rng.randbytes<unsigned char>(20);
    case ScriptKind::P2WSH:
        return CScript{} << (m_open ? OP_16 : OP_0) << rng.randbytes<unsigned char>(32);
    case ScriptKind::P2TR:
        return CScript{} << (m_open ? OP_16 : OP_1) << rng.randbytes<unsigned char>(32);
    case ScriptKind::MULTISIG:
        return Multisig(m_open, 1, rng);
    }
    assert(false);
}

void Scripts::Spend(const Coin& coin, CTxIn& input) const
{
    switch (coin.kind) {
    case ScriptKind::P2PKH:
        input.scriptSig << Signature(m_rng) << Key(m_rng);
        return;
    case ScriptKind::P2SH: {
        const CScript redeem{Redeem(m_open, coin.kind, coin.salt)};
        if (Wrapped(coin.salt)) {
            input.scriptWitness.stack = {Signature(m_rng), Key(m_rng)};
        } else {
            input.scriptSig << OP_0 << Signature(m_rng) << Signature(m_rng);
        }
        input.scriptSig << Bytes(redeem.begin(), redeem.end());
        return;
    }
    case ScriptKind::P2WPKH:
        input.scriptWitness.stack = {Signature(m_rng), Key(m_rng)};
        return;
    case ScriptKind::P2WSH: {
        const CScript redeem{Redeem(m_open, coin.kind, coin.salt)};
        input.scriptWitness.stack = {{}, Signature(m_rng), Signature(m_rng),
            Bytes(redeem.begin(), redeem.end())};
        return;
    }
    case ScriptKind::P2TR:
        input.scriptWitness.stack = {m_rng.randbytes<unsigned char>(SCHNORR)};
        return;
    case ScriptKind::MULTISIG:
        input.scriptSig << OP_0 << Signature(m_rng);
        return;
    }
    assert(false);
}

int Scripts::SigOpsCostOutput(ScriptKind kind)
{
    switch (kind) {
    case ScriptKind::P2PKH: return 1 * 4;
    case ScriptKind::MULTISIG: return 20 * 4; // outside of P2SH all count as if they had 20 keys
    default: return 0;
    }
}

int Scripts::SigOpsCostInput(ScriptKind kind)
{
    switch (kind) {
    case ScriptKind::P2SH: return 3 * 4;
    case ScriptKind::P2WPKH: return 1;
    case ScriptKind::P2WSH: return 3;
    default: return 0;
    }
}

void CoinPool::Count(int height, bool add)
{
    for (size_t node{size_t(height) + 1}; node < m_tree.size(); node += node & -node) {
        m_tree[node] += add ? 1 : size_t(-1);
    }
}

size_t CoinPool::Below(int height) const
{
    size_t sum{0};
    for (size_t node{size_t(height + 1)}; node > 0; node -= node & -node) sum += m_tree[node];
    return sum;
}

std::pair<int, size_t> CoinPool::Find(size_t rank) const
{
    size_t node{0};
    for (size_t step{std::bit_floor(m_tree.size())}; step > 0; step /= 2) {
        if (node + step < m_tree.size() && m_tree[node + step] <= rank) {
            node += step;
            rank -= m_tree[node];
        }
    }
    return {int(node), rank};
}

void CoinPool::Add(int height, const Coin& coin)
{
    m_coins.at(height).push_back(coin);
    Count(height, /*add=*/true);
}

Coin CoinPool::Remove(int height, size_t index)
{
    std::vector<Coin>& coins{m_coins.at(height)};
    const Coin coin{coins.at(index)};
    coins[index] = coins.back();
    coins.pop_back();
    // Most coins of a block are spent soon: give their memory back.
    if (coins.size() * 2 < coins.capacity()) coins.shrink_to_fit();
    Count(height, /*add=*/false);
    return coin;
}

std::pair<int, Coin> CoinPool::TakeAny(InsecureRandomContext& rng)
{
    const auto [height, index]{Find(rng.randrange(Size()))};
    return {height, Remove(height, index)};
}

std::pair<int, Coin> CoinPool::TakeFrom(int height, InsecureRandomContext& rng)
{
    const size_t below{Below(height)};
    const int from{Find(below > 0 ? below - 1 : 0).first};
    return {from, Remove(from, rng.randrange(m_coins[from].size()))};
}
