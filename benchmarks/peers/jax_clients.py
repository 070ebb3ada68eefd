"""JAX without filling: vmap over settings and seeds, scan over minibatches, the clients of a round one after the other.

Orders of rows are drawn by numpy: on a CPU, jax.random.permutation takes many times as long as the training.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from workload import given, timed

work = given()
clients = [(jnp.asarray(X), jnp.asarray(y, jnp.float32)) for X, y in work.clients]
share, features = jnp.array([len(y) for _, y in clients]) / len(work.y), work.X.shape[1]
shapes = [(work.hidden, features), (work.hidden,), (work.hidden,), ()] if work.hidden else [(features,), ()]
start, unravel = jnp.asarray(work.start), ravel_pytree([jnp.zeros(shape) for shape in shapes])[1]
rule = {"sgd": optax.identity, "adam": optax.scale_by_adam}[work.optimizer]()
optimizer = optax.chain(optax.add_decayed_weights(work.weight_decay), rule, optax.scale(-work.lr))


def loss(params, X, y):
    *first, V, b = unravel(params)
    logits = (jnp.tanh(X @ first[0].T + first[1]) if first else X) @ V + b
    return optax.sigmoid_binary_cross_entropy(logits, y).mean()


def train(params, X, y, orders):
    def minibatch(carry, rows):
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params, X[rows], y[rows]), state, params)
        return (params + updates, state), None

    def epoch(carry, order):
        whole = len(y) // work.batch_size * work.batch_size
        carry, _ = jax.lax.scan(minibatch, carry, order[:whole].reshape(-1, work.batch_size))
        return minibatch(carry, order[whole:]) if whole < len(y) else (carry, None)

    return jax.lax.scan(epoch, (params, optimizer.init(params)), orders)[0][0]


def one_run(orders, beta):
    def one_round(carry, given):
        (params, v), (t, orders) = carry, given
        step = share @ jnp.stack([train(params, X, y, order) for (X, y), order in zip(clients, orders, strict=True)]) - params
        v = beta * v + (1 - beta) * step
        return (params + v / (1 - beta**t), v), None

    return jax.lax.scan(one_round, (start, jnp.zeros_like(start)), (jnp.arange(1, work.rounds + 1), orders))[0][0]


every, rng = jax.jit(jax.vmap(jax.vmap(one_run, (0, None)), (None, 0))), np.random.default_rng(0)


def drawn(rows):
    return rng.permuted(np.broadcast_to(np.arange(rows, dtype=np.int32), (work.seeds, work.rounds, work.epochs, rows)), axis=-1)


timed(work, lambda: np.asarray(every([drawn(len(y)) for _, y in clients], jnp.asarray(work.betas))))
