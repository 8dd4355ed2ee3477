# Runs docs/frameworks/sqlalchemy.md.
python3 -m venv venv
venv/bin/pip install --quiet sqlalchemy 'psycopg[binary]'
cat >main.py <<'PYTHON'
import os

from sqlalchemy import create_engine
from sqlalchemy.exc import IntegrityError

from orders import place_order

url, _, query = os.environ["DATABASE_URL"].partition("?")
schema = query.split("search_path=")[1].split("&")[0]
engine = create_engine(
    url.replace("postgres://", "postgresql+psycopg://"), connect_args={"options": "-csearch_path=" + schema}
)
place_order(engine, "ada", 4200)
try:
    place_order(engine, "mallory", 1)
except IntegrityError:
    pass
PYTHON
venv/bin/python main.py
