"""Flower: its simulation, in which Ray gives each processor a client at a time."""

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from workload import Clock, given, hand_back

work = given()
clients = [(torch.tensor(X), torch.tensor(y, dtype=torch.float32)) for X, y in work.clients]
features = work.X.shape[1]
make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[work.optimizer]


def network():
    if work.hidden:
        return nn.Sequential(nn.Linear(features, work.hidden), nn.Tanh(), nn.Linear(work.hidden, 1))
    return nn.Linear(features, 1)


client_app, server_app = ClientApp(), ServerApp()


@client_app.train()
def train(message, context):
    torch.set_num_threads(1)  # faster than two for so few rows
    X, y = clients[context.node_config["partition-id"]]
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = make(model.parameters(), lr=work.lr, weight_decay=work.weight_decay)
    for _ in range(work.epochs):
        for rows in torch.randperm(len(y)).split(work.batch_size):
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(model(X[rows]).squeeze(1), y[rows]).backward()
            optimizer.step()
    answer = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
    return Message(RecordDict(answer), reply_to=message)


@server_app.main()
def main(grid, context):
    model, clock, ends = network(), Clock(), []

    def after_round(t, arrays):
        if t:
            clock.tick()
            ends.append(arrays)

    vector_to_parameters(torch.tensor(work.start), model.parameters())
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=len(clients), min_available_nodes=len(clients))
    rounds = work.rounds * (1 + work.repeats)
    strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=rounds, evaluate_fn=after_round)
    model.load_state_dict(ends[work.rounds - 1].to_torch_state_dict())
    hand_back([[parameters_to_vector(model.parameters()).detach().numpy()]], clock)


backend = {"init_args": {"include_dashboard": False}, "client_resources": {"num_cpus": 1}}
run_simulation(server_app, client_app, num_supernodes=len(clients), backend_config=backend)
