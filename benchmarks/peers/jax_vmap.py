"""JAX: vmap over settings, seeds and clients, scan over minibatches. Clients are filled up to the size of the largest.

Orders of rows are drawn by numpy: on a CPU, jax.random.permutation takes many times as long as the training.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from workload import given, timed

work = given()
most = -(-max(len(y) for _, y in work.clients) // work.batch_size) * work.batch_size
X = jnp.stack([np.pad(X, ((0, most - len(X)), (0, 0))) for X, _ in work.clients])
y = jnp.stack([np.pad(y.astype(np.float32), (0, most - len(y))) for _, y in work.clients])
there = jnp.stack([jnp.arange(most) < len(y) for _, y in work.clients])
share = there.sum(1) / there.sum()
shapes = [(work.hidden, X.shape[2]), (work.hidden,), (work.hidden,), ()] if work.hidden else [(X.shape[2],), ()]
start, unravel = jnp.asarray(work.start), ravel_pytree([jnp.zeros(shape) for shape in shapes])[1]
rule = {"sgd": optax.identity, "adam": optax.scale_by_adam}[work.optimizer]()
optimizer = optax.chain(optax.add_decayed_weights(work.weight_decay), rule, optax.scale(-work.lr))


def loss(params, X, y, there):
    *first, V, b = unravel(params)
    logits = (jnp.tanh(X @ first[0].T + first[1]) if first else X) @ V + b
    return (there * optax.sigmoid_binary_cross_entropy(logits, y)).sum() / jnp.maximum(there.sum(), 1)


def train(params, X, y, there, order):
    def minibatch(carry, rows):
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params, X[rows], y[rows], there[rows]), state, params)
        some = there[rows].any()  # a minibatch of nothing but filling changes nothing
        return jax.tree.map(partial(jnp.where, some), (params + updates, state), carry), None

    return jax.lax.scan(minibatch, (params, optimizer.init(params)), order.reshape(-1, work.batch_size))[0][0]


def one_run(orders, beta):
    def one_round(carry, given):
        (params, v), (t, order) = carry, given
        step = share @ jax.vmap(train, (None, 0, 0, 0, 0))(params, X, y, there, order) - params
        v = beta * v + (1 - beta) * step
        return (params + v / (1 - beta**t), v), None

    return jax.lax.scan(one_round, (start, jnp.zeros_like(start)), (jnp.arange(1, work.rounds + 1), orders))[0][0]


every, rng = jax.jit(jax.vmap(jax.vmap(one_run, (0, None)), (None, 0))), np.random.default_rng(0)


def drawn():
    orders = np.tile(np.arange(most, dtype=np.int32), (work.seeds, work.rounds, len(X), work.epochs, 1))
    for k, (_, y) in enumerate(work.clients):  # filling stays at the end
        rng.permuted(orders[:, :, k, :, : len(y)], axis=-1, out=orders[:, :, k, :, : len(y)])
    return orders


timed(work, lambda: np.asarray(every(drawn(), jnp.asarray(work.betas))))
