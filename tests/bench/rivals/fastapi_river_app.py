"""The service most people would write: FastAPI, pydantic models, river's LogisticRegression, SQLite with a commit a request.

The commit is durable (WAL, synchronous=FULL) and comes before the model learns and before the answer. Endpoints are `async def`:
with one worker and a model that one thread at a time may touch, that is the faster way; in FastAPI's thread pool requests
would also wait for a lock.
"""

from __future__ import annotations

import json
import os
import sqlite3
from typing import Final

from fastapi import FastAPI, Request
from pydantic import BaseModel
from river import linear_model, optim

DATABASE: Final = "RIVAL_DATABASE"  # environment variable that names the file
RATE: Final = 0.05  # of river's SGD


class Features(BaseModel):
    """The row to predict."""

    features: dict[str, float]


class Example(Features):
    """The row to learn."""

    label: int


class Observed(BaseModel):
    """Answer: the number of the event."""

    seq: int


class Prediction(BaseModel):
    """Answer: the probability of label 1."""

    probability: float


def create_app() -> FastAPI:
    """Build the application over the database named in the environment."""
    database = sqlite3.connect(os.environ[DATABASE], isolation_level=None)  # every statement commits
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, label INTEGER NOT NULL, features TEXT NOT NULL)"
    )
    model = linear_model.LogisticRegression(optimizer=optim.SGD(RATE))
    app = FastAPI()

    @app.post("/observe", response_model=Observed)
    async def observe(example: Example) -> Observed:
        row = (example.label, json.dumps(example.features))
        seq = database.execute("INSERT INTO events (label, features) VALUES (?, ?)", row).lastrowid
        model.learn_one(example.features, bool(example.label))
        return Observed(seq=seq or 0)

    @app.post("/predict", response_model=Prediction)
    async def predict(query: Features) -> Prediction:
        return Prediction(probability=model.predict_proba_one(query.features)[True])

    @app.get("/predict", response_model=Prediction)
    async def predict_query(request: Request) -> Prediction:
        features = {name: float(value) for name, value in request.query_params.items()}
        return Prediction(probability=model.predict_proba_one(features)[True])

    @app.get("/ready")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    return app
