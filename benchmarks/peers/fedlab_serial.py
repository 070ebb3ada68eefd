"""FedLab: its standalone pipeline, in which one trainer goes through the clients one after the other."""

import torch
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.core.standalone import StandalonePipeline
from fedlab.utils import Aggregators, SerializationTool
from torch import nn
from torch.nn.utils import vector_to_parameters
from workload import Clock, given, hand_back

torch.set_num_threads(1)  # faster than two for so few rows
work = given()
clients = [(torch.tensor(X), torch.tensor(y, dtype=torch.float32)) for X, y in work.clients]
features = work.X.shape[1]
model = (
    nn.Sequential(nn.Linear(features, work.hidden), nn.Tanh(), nn.Linear(work.hidden, 1))
    if work.hidden
    else nn.Linear(features, 1)
)
vector_to_parameters(torch.tensor(work.start), model.parameters())
make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[work.optimizer]
clock, ends = Clock(), []


class Trainer(SGDSerialClientTrainer):
    def local_process(self, payload, id_list):
        for k in id_list:
            self.cache.append([*self.train(payload[0], clients[k]), len(clients[k][1])])

    def train(self, model_parameters, rows):
        X, y = rows
        self.set_model(model_parameters)
        optimizer, criterion = make(self.model.parameters(), lr=work.lr, weight_decay=work.weight_decay), nn.BCEWithLogitsLoss()
        for _ in range(work.epochs):
            for some in torch.randperm(len(y)).split(work.batch_size):
                optimizer.zero_grad()
                criterion(self.model(X[some]).squeeze(1), y[some]).backward()
                optimizer.step()
        return [self.model_parameters]


class Server(SyncServerHandler):
    def global_update(self, buffer):
        params, sizes = zip(*buffer, strict=True)
        SerializationTool.deserialize_model(self._model, Aggregators.fedavg_aggregate(params, sizes))


class Pipeline(StandalonePipeline):
    def evaluate(self):
        clock.tick()
        ends.append(self.handler.model_parameters.numpy().copy())


server = Server(model, global_round=work.rounds * (1 + work.repeats), sample_ratio=1.0)
Pipeline(server, Trainer(model, len(clients))).main()
hand_back([[ends[work.rounds - 1]]], clock)
