# Runs docs/frameworks/django.md.
python3 -m venv venv
venv/bin/pip install --quiet django 'psycopg[binary]'
touch shop/__init__.py
cat >main.py <<'PYTHON'
import os
from urllib.parse import parse_qs, urlparse

import django
from django.conf import settings

url = urlparse(os.environ["DATABASE_URL"])
settings.configure(
    INSTALLED_APPS=["shop"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": url.hostname,
            "PORT": url.port,
            "USER": url.username,
            "NAME": url.path[1:],
            "OPTIONS": {"options": "-c search_path=" + parse_qs(url.query)["search_path"][0]},
        }
    },
)
django.setup()

from shop.orders import place_order

place_order("ada", 4200)
try:
    place_order("mallory", 1)
except django.db.IntegrityError:
    pass
PYTHON
venv/bin/python main.py
