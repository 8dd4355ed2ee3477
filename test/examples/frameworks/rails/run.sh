# Runs docs/frameworks/rails.md with Debian's Active Record.
if ! ruby -e 'require "active_record"; require "pg"' 2>/dev/null; then
  apt-get install -y -qq ruby-activerecord ruby-pg >/dev/null
fi
cat >main.rb <<'RUBY'
require "active_record"
url, query = ENV.fetch("DATABASE_URL").split("?")
ActiveRecord::Base.establish_connection(
  url: url, schema_search_path: URI.decode_www_form(query).to_h.fetch("search_path")
)
require "./app/models/order"
require "./app/models/outbox_message"
Order.place("ada", 4200)
begin
  Order.place("mallory", 1)
rescue ActiveRecord::StatementInvalid
end
RUBY
ruby main.rb
