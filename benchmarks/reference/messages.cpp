// Flooding and residual belief propagation on flat arrays: what a plain C++ loop achieves.
//
// Every model has one state count k, known at run time only, and one arity; messages are positive
// doubles. Compiled and loaded by benchmarks/messages.py, which hands over the arrays of the same
// model that credo gets. All functions return the largest change of a message in the last sweep.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using Index = std::uint32_t;

namespace {

constexpr int kMaxArity = 8;

// Beliefs: the unary factors times all messages at each variable, gathered variable by variable.
void gather(std::int64_t n, int k, const double* unary, const std::int64_t* start, const Index* around,
            const double* messages, double* belief, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t i = 0; i < n; ++i) {
        double* b = belief + i * k;
        for (int x = 0; x < k; ++x) b[x] = unary[i * k + x];
        for (std::int64_t g = start[i]; g < start[i + 1]; ++g) {
            const double* m = messages + std::int64_t(around[g]) * k;
            for (int x = 0; x < k; ++x) b[x] *= m[x];
        }
    }
}

void pair_messages(int k, const double* __restrict psi, const double* __restrict cavity,
                   double* __restrict out) {
    const double *c0 = cavity, *c1 = cavity + k;
    double *to0 = out, *to1 = out + k;
    for (int y = 0; y < k; ++y) to1[y] = 0;
    for (int x = 0; x < k; ++x, psi += k) {
        double sum = 0;
        for (int y = 0; y < k; ++y) {
            sum += psi[y] * c1[y];
            to1[y] += psi[y] * c0[x];
        }
        to0[x] = sum;
    }
}

void triple_messages(int k, const double* __restrict psi, const double* __restrict cavity,
                     double* __restrict out) {
    const double *c0 = cavity, *c1 = cavity + k, *c2 = cavity + 2 * k;
    double *to0 = out, *to1 = out + k, *to2 = out + 2 * k;
    std::fill(out, out + 3 * k, 0.0);
    for (int x = 0; x < k; ++x)
        for (int y = 0; y < k; ++y, psi += k) {
            const double both = c0[x] * c1[y];
            double sum = 0;
            for (int z = 0; z < k; ++z) {
                sum += psi[z] * c2[z];
                to2[z] += psi[z] * both;
            }
            to0[x] += sum * c1[y];
            to1[y] += sum * c0[x];
        }
}

// Any arity, zeros allowed: prefix and suffix products per table entry.
void any_messages(int arity, int k, const double* psi, const double* cavity, double* out) {
    int digit[kMaxArity] = {0};
    double before[kMaxArity + 1], after[kMaxArity + 1];
    std::fill(out, out + arity * k, 0.0);
    std::int64_t size = 1;
    for (int j = 0; j < arity; ++j) size *= k;
    for (std::int64_t entry = 0; entry < size; ++entry) {
        before[0] = psi[entry];
        for (int j = 0; j < arity; ++j) before[j + 1] = before[j] * cavity[j * k + digit[j]];
        after[arity] = 1;
        for (int j = arity - 1; j >= 0; --j) {
            after[j] = after[j + 1] * cavity[j * k + digit[j]];
            out[j * k + digit[j]] += before[j] * after[j + 1];
        }
        for (int j = arity - 1; j >= 0; --j) {
            if (++digit[j] < k) break;
            digit[j] = 0;
        }
    }
}

// New messages of factor a, with mean one, into `out`; returns the largest change in probability.
double update(std::int64_t a, int arity, int k, std::int64_t size, const Index* scope, const double* psi,
              const double* belief, const double* messages, double* cavity, double* out) {
    for (int j = 0; j < arity; ++j) {
        const double *b = belief + std::int64_t(scope[a * arity + j]) * k, *m = messages + (a * arity + j) * k;
        for (int x = 0; x < k; ++x) cavity[j * k + x] = b[x] / m[x];
    }
    if (arity == 2)
        pair_messages(k, psi + a * size, cavity, out);
    else if (arity == 3)
        triple_messages(k, psi + a * size, cavity, out);
    else
        any_messages(arity, k, psi + a * size, cavity, out);
    double change = 0;
    for (int j = 0; j < arity; ++j) {
        double total = 0;
        for (int x = 0; x < k; ++x) total += out[j * k + x];
        const double scale = k / total;
        const double* old = messages + (a * arity + j) * k;
        for (int x = 0; x < k; ++x) {
            out[j * k + x] *= scale;
            change = std::max(change, std::abs(out[j * k + x] - old[x]));
        }
    }
    return change / k;
}

// A max-heap of factors by residual, with the place of each.
struct Heap {
    std::vector<Index> item, place;
    std::vector<double> key;

    explicit Heap(std::int64_t m) : item(m), place(m), key(m) {
        for (std::int64_t a = 0; a < m; ++a) item[a] = place[a] = Index(a);
    }
    void put(std::int64_t at, Index a) {
        item[at] = a;
        place[a] = Index(at);
    }
    void sift(std::int64_t at) {
        const Index a = item[at];
        while (at > 0 && key[item[(at - 1) / 2]] < key[a]) {
            put(at, item[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        const std::int64_t m = item.size();
        for (std::int64_t child = 2 * at + 1; child < m; child = 2 * at + 1) {
            if (child + 1 < m && key[item[child + 1]] > key[item[child]]) ++child;
            if (key[item[child]] <= key[a]) break;
            put(at, item[child]);
            at = child;
        }
        put(at, a);
    }
};

}  // namespace

extern "C" {

double flooding(std::int64_t n, std::int64_t m, int arity, int k, const Index* scope, const double* psi,
                const double* unary, const std::int64_t* start, const Index* around, double* messages,
                int sweeps, int threads) {
    std::int64_t size = 1;
    for (int j = 0; j < arity; ++j) size *= k;
    std::vector<double> belief(n * k);
    double change = 0;
    for (int turn = 0; turn < sweeps; ++turn) {
        gather(n, k, unary, start, around, messages, belief.data(), threads);
        change = 0;
#pragma omp parallel num_threads(threads) reduction(max : change)
        {
            std::vector<double> cavity(arity * k), out(arity * k);
#pragma omp for schedule(static)
            for (std::int64_t a = 0; a < m; ++a) {
                change = std::max(change, update(a, arity, k, size, scope, psi, belief.data(), messages,
                                                 cavity.data(), out.data()));
                std::copy(out.begin(), out.end(), messages + a * arity * k);
            }
        }
    }
    return change;
}

// Pairwise binary models with one ratio m(1) / m(0) per message; psi as (m, 4), ratio as (m, 2).
double binary_flooding(std::int64_t n, std::int64_t m, const Index* scope, const double* psi,
                       const double* prior, const std::int64_t* start, const Index* around, double* ratio,
                       int sweeps, int threads) {
    std::vector<double> belief(n);
    double change = 0;
    for (int turn = 0; turn < sweeps; ++turn) {
        gather(n, 1, prior, start, around, ratio, belief.data(), threads);
        change = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : change)
        for (std::int64_t a = 0; a < m; ++a) {
            const double* p = psi + 4 * a;
            double* r = ratio + 2 * a;
            const double ci = belief[scope[2 * a]] / r[0], cj = belief[scope[2 * a + 1]] / r[1];
            const double to_i = (p[2] + p[3] * cj) / (p[0] + p[1] * cj);
            const double to_j = (p[1] + p[3] * ci) / (p[0] + p[2] * ci);
            change = std::max(change, std::abs(to_i - r[0]) / ((1 + to_i) * (1 + r[0])));
            change = std::max(change, std::abs(to_j - r[1]) / ((1 + to_j) * (1 + r[1])));
            r[0] = to_i;
            r[1] = to_j;
        }
    }
    return change;
}

// Always the factor whose messages would change most; `done` counts the committed factors.
double residual(std::int64_t n, std::int64_t m, int arity, int k, const Index* scope, const double* psi,
                const double* unary, const std::int64_t* start, const Index* around, double* messages,
                std::int64_t updates, double tol, std::int64_t* done) {
    std::int64_t size = 1;
    for (int j = 0; j < arity; ++j) size *= k;
    const std::int64_t width = std::int64_t(arity) * k;
    std::vector<double> belief(n * k), fresh(m * width), cavity(width);
    gather(n, k, unary, start, around, messages, belief.data(), 1);
    Heap heap(m);
    const auto refresh = [&](std::int64_t a) {
        return update(a, arity, k, size, scope, psi, belief.data(), messages, cavity.data(), &fresh[a * width]);
    };
    for (std::int64_t a = 0; a < m; ++a) heap.key[a] = refresh(a);
    for (std::int64_t at = m - 1; at >= 0; --at) heap.sift(at);
    for (*done = 0; *done < updates && heap.key[heap.item[0]] >= tol; ++*done) {
        const Index a = heap.item[0];
        for (int j = 0; j < arity; ++j) {
            double* b = belief.data() + std::int64_t(scope[a * arity + j]) * k;
            for (int x = 0; x < k; ++x) {
                double &old = messages[a * width + j * k + x], now = fresh[a * width + j * k + x];
                b[x] *= now / old;
                old = now;
            }
        }
        heap.key[a] = 0;
        heap.sift(0);
        for (int j = 0; j < arity; ++j) {
            const Index i = scope[a * arity + j];
            for (std::int64_t g = start[i]; g < start[i + 1]; ++g) {
                const Index b = around[g] / Index(arity);
                if (b == a) continue;
                heap.key[b] = refresh(b);
                heap.sift(heap.place[b]);
            }
        }
    }
    return heap.key[heap.item[0]];
}
}
