"""This project's library: all settings and seeds of a federation in one call."""

import numpy as np
import pandas as pd
from workload import given, timed

from fairfl_lite import ClientTraining, Federation, FedMom, Partition, Table

work = given()
frame = pd.DataFrame(work.X).add_prefix("x")
features = list(frame)
frame = frame.assign(label=work.y, group=work.group, client=work.client)
table = Table.from_frame(frame, label="label", sensitive="group", features=features, scaling="none")
local = ClientTraining(work.optimizer, work.lr, work.weight_decay, work.epochs, work.batch_size)
fed = Federation.of(
    table, Partition.by_column("client"), range(work.seeds), local, hidden=work.hidden, test=0, init_params=work.start
)
methods = [FedMom(beta, name=f"beta {beta}") for beta in work.betas]


def run():
    runs = fed.run(methods, work.rounds, record=())
    return np.stack([history.state.params for history in runs.values()])


timed(work, run)
