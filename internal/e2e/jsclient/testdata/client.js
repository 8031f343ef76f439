// What a program does that uses jujulib. It prints one line for each thing that
// went well, and ends with the first that did not.
'use strict';

const jujulib = require('@canonical/jujulib');
const facades = ['all-watcher-v1', 'annotations-v2', 'block-v2', 'client-v1', 'controller-v3', 'controller-v5', 'key-manager-v1',
  'machine-manager-v2', 'model-config-v1', 'model-manager-v2', 'pinger-v1', 'spaces-v2', 'subnets-v2', 'user-manager-v1',
].map(name => require('@canonical/jujulib/api/facades/' + name + '.js'));
const options = {facades: facades, wsclass: require('ws')};

const {ADDRESS, MODEL, ADMIN_PASSWORD} = process.env;
const address = jujulib.generateModelURL(ADDRESS, MODEL);
const credentials = {user: 'user-admin', password: ADMIN_PASSWORD};

function check(what, good, detail) {
  if (!good) {
    throw new Error(what + ': ' + JSON.stringify(detail));
  }
  console.log('ok ' + what);
}

// refused returns the error of a promise that must fail.
async function refused(what, promise) {
  let result;
  try {
    result = await promise;
  } catch (err) {
    return String(err.message || err);
  }
  throw new Error(what + ' succeeds: ' + JSON.stringify(result));
}

async function logins() {
  const juju = await jujulib.connect(address, options);
  check('login without credentials is refused', (await refused('login', juju.login({}))) === 'no credentials provided');
  check('login with a wrong password is refused',
    (await refused('login', juju.login({user: 'user-admin', password: 'wrong'}))) === 'invalid entity name or password');
  const conn = await juju.login(credentials);
  check('login', conn.info.modelTag === 'model-' + MODEL && conn.info.controllerTag.startsWith('controller-'), conn.info);
  return {juju, conn};
}

async function model({client, machineManager, modelConfig, pinger}) {
  const before = await client.fullStatus({patterns: []});
  check('full status', before.model.name === 'default' && Object.keys(before.machines).length === 0, before);

  // Deltas come while machines are added.
  const seen = new Set();
  let handle;
  const watched = new Promise((resolve, reject) => {
    handle = client.watch((err, result) => {
      if (err) {
        reject(new Error(err));
        return;
      }
      for (const [kind, change, entity] of result.deltas) {
        if (kind === 'machine' && change === 'change') {
          seen.add(entity.id);
        }
      }
      if (seen.has('0') && seen.has('1')) {
        resolve();
      }
    });
  });
  const added = await machineManager.addMachines({params: [
    {jobs: ['JobHostUnits'], constraints: {mem: 2048}},
    {jobs: ['JobHostUnits'], disks: [{pool: 'fast', size: 1024, count: 2}]},
  ]});
  check('add machines', added.machines.map(m => m.machine).join(' ') === '0 1', added);
  await watched;
  check('watch deltas', true);
  await new Promise(resolve => handle.stop(resolve));

  const after = await client.fullStatus({patterns: []});
  check('full status of machines', Object.keys(after.machines).sort().join(' ') === '0 1' && after.machines['0'].series !== '', after);
  const settings = await modelConfig.modelGet();
  check('model config', settings.config.name.value === 'default' && settings.config.name.source === 'model', settings);
  await pinger.ping();
  check('ping', true);
}

async function networks({spaces, subnets}) {
  await spaces.createSpaces({spaces: [{subnetTags: [], spaceTag: 'space-db', public: false}]});
  const added = await subnets.addSubnets({subnets: [{subnetTag: 'subnet-10.0.0.0/24', spaceTag: 'space-db', zones: ['z1']}]});
  check('add a subnet', !added.results[0].error, added);
  const listed = await spaces.listSpaces();
  check('list spaces', listed.results[0].name === 'db' && listed.results[0].subnets[0].cidr === '10.0.0.0/24', listed);
}

async function site() {
  const {conn, logout} = await jujulib.connectAndLogin('wss://' + ADDRESS + '/api', credentials, options);
  const {controller, modelManager} = conn.facades;
  const models = await controller.allModels();
  check('all models', models.userModels.length === 2, models);
  const config = await controller.controllerConfig();
  check('controller config', config.config['controller-uuid'] !== undefined, Object.keys(config.config));
  const mine = await modelManager.listModels({tag: 'user-admin'});
  check('list models', mine.userModels.length === 2, mine);
  logout();
}

async function main() {
  const {juju, conn} = await logins();
  await model(conn.facades);
  await networks(conn.facades);
  juju.logout();
  await site();
  console.log('all ok');
}

const limit = setTimeout(() => {
  console.error('not done after 60 s');
  process.exit(1);
}, 60000);
main().then(() => clearTimeout(limit), err => {
  console.error(err);
  process.exit(1);
});
