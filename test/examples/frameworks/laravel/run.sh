# Runs docs/frameworks/laravel.md with Debian's Eloquent.
if ! php -r 'require "Illuminate/Database/autoload.php"; exit(extension_loaded("pdo_pgsql") ? 0 : 1);' 2>/dev/null; then
  apt-get install -y -qq php-cli php-pgsql php-illuminate-database php-illuminate-events >/dev/null
fi
cat >main.php <<'PHP'
<?php
require 'Illuminate/Database/autoload.php';
require 'Illuminate/Events/autoload.php';

use Illuminate\Container\Container;
use Illuminate\Database\Capsule\Manager;
use Illuminate\Support\Facades\Facade;

$url = parse_url(getenv('DATABASE_URL'));
parse_str($url['query'], $query);
$manager = new Manager(new Container());
$manager->addConnection([
    'driver' => 'pgsql', 'host' => $url['host'], 'port' => $url['port'], 'username' => $url['user'], 'password' => '',
    'database' => substr($url['path'], 1), 'schema' => $query['search_path'], 'charset' => 'utf8',
]);
$manager->setAsGlobal();
$manager->bootEloquent();
$manager->getContainer()->instance('db', $manager->getDatabaseManager());
Facade::setFacadeApplication($manager->getContainer());

require 'app/Models/Order.php';
require 'app/Models/OutboxMessage.php';
App\Models\Order::place('ada', 4200);
try {
    App\Models\Order::place('mallory', 1);
} catch (Illuminate\Database\QueryException $e) {
}
PHP
php main.php
