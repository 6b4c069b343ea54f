// Draws the dashboard of deploy/ with Grafana's own panel components, from what a Prometheus answered to its queries.
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import { interpolateBlues } from 'd3-scale-chromatic';
import { useEffect } from 'react';
import { createRoot } from 'react-dom/client';
import { firstValueFrom } from 'rxjs';
import {
  applyFieldOverrides, cacheFieldDisplayNames, createDataFrame, createTheme, dateTime, EventBusSrv, FieldType, formattedValueToString, getFieldDisplayValues,
  getValueFormat, Registry, setTimeZoneResolver, standardTransformers, standardTransformersRegistry, ThemeContext, transformDataFrame,
} from '@grafana/data';
import {
  BigValue, BigValueGraphMode, GlobalStyles, PanelChrome, PanelContextProvider, TimeSeries, UPlotChart, UPlotConfigBuilder, VizRepeater,
} from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import dashboard from '../../deploy/grafana-dashboard.json';
import { to, answers } from 'answers'; // a file that TestDashboardShowsALoad wrote

const timeZone = 'utc';
const from = Math.min(...Object.values(answers).flatMap(({ result }) => result.flatMap(({ values }) => values?.[0][0] ?? to)));
const theme = createTheme({ colors: { mode: 'dark' } });
const range = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: 'now-1m', to: 'now' } };
setTimeZoneResolver(() => timeZone);

// Grafana registers these from its application, which is no package.
standardTransformersRegistry.setInit(() =>
  [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer].map((t) => ({
    id: t.id, name: t.name, transformation: () => Promise.resolve(t),
  })));
const property = (path, isCustom) => ({
  id: isCustom ? 'custom.' + path : path, path, isCustom, name: path, process: (value) => value, shouldApply: () => true,
});
const properties = new Registry(() => [
  ...['unit', 'decimals', 'min', 'max', 'noValue', 'displayName', 'thresholds', 'color', 'mappings'].map((path) => property(path)),
  ...['drawStyle', 'fillOpacity', 'lineWidth', 'showPoints', 'spanNulls', 'stacking', 'axisSoftMin', 'axisSoftMax',
    'scaleDistribution', 'lineInterpolation', 'lineStyle', 'width', 'cellOptions'].map((path) => property(path, true)),
]);
// What Grafana's panels take where a dashboard says nothing.
const defaults = {
  stat: { color: { mode: 'thresholds' }, thresholds: { mode: 'absolute', steps: [{ color: 'green', value: -Infinity }, { color: 'red', value: 80 }] } },
  timeseries: {
    color: { mode: 'palette-classic' },
    custom: { drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, pointSize: 5, showPoints: 'auto', spanNulls: false, axisPlacement: 'auto' },
  },
  table: {},
};

// framesOf makes data frames of the answer to a query, as Grafana's data source for Prometheus does.
function framesOf(panel, target) {
  const { result } = answers[`panel ${panel.title} ${target.refId}`];
  if (target.format === 'table') {
    const labels = [...new Set(result.flatMap((series) => Object.keys(series.metric)))].sort();
    return [createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: result.map((series) => series.value[0] * 1000) },
        ...labels.map((name) => ({ name, type: FieldType.string, values: result.map((series) => series.metric[name] ?? '') })),
        { name: 'Value #' + target.refId, type: FieldType.number, values: result.map((series) => number(series.value[1])) },
      ],
    })];
  }
  return result.map((series) => {
    const values = series.values ?? [series.value];
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: values.map(([at]) => at * 1000), config: { interval: 1000 } },
        {
          name: 'Value', type: FieldType.number, labels: series.metric, values: values.map(([, text]) => number(text)),
          config: { displayNameFromDS: target.legendFormat.replace(/{{(\w+)}}/g, (_, label) => series.metric[label] ?? '') },
        },
      ],
    });
  });
}

function number(text) {
  switch (text) {
    case 'NaN': return null;
    case '+Inf': return Infinity;
    default: return Number(text);
  }
}

// dataOf returns a panel's frames, transformed, and with its units, colours and thresholds.
async function dataOf(panel) {
  const frames = panel.targets.flatMap((target) => framesOf(panel, target));
  const data = await firstValueFrom(transformDataFrame(panel.transformations ?? [], frames));
  const of = defaults[panel.type] ?? {};
  const { fieldConfig } = panel;
  const all = applyFieldOverrides({
    data, theme, timeZone, replaceVariables: (text) => text, fieldConfigRegistry: properties,
    fieldConfig: { overrides: fieldConfig.overrides, defaults: { ...of, ...fieldConfig.defaults, custom: { ...of.custom, ...fieldConfig.defaults.custom } } },
  });
  cacheFieldDisplayNames(all);
  return all;
}

const kinds = {
  stat: ({ panel, data, width, height }) => {
    const { reduceOptions, colorMode, graphMode, ...rest } = panel.options;
    const values = getFieldDisplayValues({
      fieldConfig: { overrides: [], defaults: { ...defaults.stat, ...panel.fieldConfig.defaults } }, reduceOptions, replaceVariables: (text) => text, theme, data, timeZone,
    });
    return <VizRepeater source={values} getValues={() => values} width={width} height={height} renderCounter={0} orientation="auto"
      renderValue={({ value, width, height }) => (
        <BigValue value={{ ...value.display, title: undefined }} width={width} height={height} theme={theme} {...rest}
          colorMode={colorMode} graphMode={graphMode ?? BigValueGraphMode.Area} justifyMode="auto" textMode="auto" />
      )} />;
  },
  timeseries: ({ panel, data, width, height }) => (
    <TimeSeries frames={data} structureRev={1} timeRange={range} timeZone={timeZone} width={width} height={height}
      legend={{ showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [], ...panel.options.legend }} options={panel.options} />
  ),
  table: ({ data: [data], width, height, panel }) => <TableNG data={data} width={width} height={height} fieldConfig={panel.fieldConfig} {...panel.options} enableVirtualization={false} />,
  heatmap: Heatmap,
};

// Grafana's heatmap is in no package: this one has its looks, on Grafana's own chart.
function Heatmap({ panel, data, width, height }) {
  const le = (frame) => number(frame.fields[1].labels.le);
  const buckets = [...data].sort((a, b) => le(a) - le(b)).map((frame) => ({
    le: le(frame), at: new Map(frame.fields[0].values.map((time, i) => [time, frame.fields[1].values[i]])),
  }));
  const times = [...new Set(buckets.flatMap((bucket) => [...bucket.at.keys()]))].sort((a, b) => a - b);
  const cells = times.map((time) => buckets.map((bucket, i) => Math.max(0, (bucket.at.get(time) ?? 0) - (buckets[i - 1]?.at.get(time) ?? 0))));
  const most = Math.max(...cells.flat());
  const { exponent = 0.5, steps } = panel.options.color;
  const colour = (count) => interpolateBlues(1 - Math.round((count / most) ** exponent * (steps - 1)) / (steps - 1)); // as in dark themes
  const format = getValueFormat(panel.options.yAxis.unit);
  const label = (i) => buckets[i].le === Infinity ? '+Inf' : formattedValueToString(format(buckets[i].le));

  const builder = new UPlotConfigBuilder(timeZone);
  builder.addScale({ scaleKey: 'x', isTime: true, orientation: 0, direction: 1, range: () => [from * 1000, to * 1000] });
  builder.addScale({ scaleKey: 'y', orientation: 1, direction: 1, range: () => [0, buckets.length] });
  builder.addAxis({ scaleKey: 'x', isTime: true, placement: 'bottom', timeZone, theme, grid: { show: false } });
  const every = Math.ceil(buckets.length * 18 / (height - 60));
  const marks = buckets.map((_, i) => i + 1).filter((i) => (buckets.length - i) % every === 0);
  builder.addAxis({
    scaleKey: 'y', placement: 'left', theme, grid: { show: false }, splits: () => marks, values: () => marks.map((i) => label(i - 1)),
  });
  builder.addSeries({ scaleKey: 'y', theme, lineWidth: 0, pathBuilder: () => null, pointsBuilder: () => null });
  builder.addHook('draw', (plot) => {
    cells.forEach((column, i) => column.forEach((count, bucket) => {
      if (count > 0) {
        const [left, right] = [times[i] - 1000, times[i]].map((time) => plot.valToPos(time, 'x', true));
        const [bottom, top] = [bucket, bucket + 1].map((y) => plot.valToPos(y, 'y', true));
        plot.ctx.fillStyle = colour(count);
        plot.ctx.fillRect(left, top + 1, right - left - 1, bottom - top - 1);
      }
    }));
  });
  return (
    <>
      <UPlotChart config={builder} data={[times, times.map(() => 0)]} width={width} height={height - 24} />
      <div style={{ display: 'flex', gap: 8, alignItems: 'center', fontSize: 12, color: theme.colors.text.secondary }}>
        0 <span style={{ width: 160, height: 8, background: `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((part) => colour(part * most))})` }} /> {Math.round(most)}
      </div>
    </>
  );
}

const cell = (size) => size * 38 - 8; // Grafana's grid: rows of 30 pixels, 8 between them
const inner = document.documentElement.clientWidth - 32;
const column = (inner + 8) / 24;

function Panel({ panel, data }) {
  const { x, y, w, h } = panel.gridPos;
  const place = { position: 'absolute', left: x * column, top: y * 38, width: w * column - 8, height: cell(h) };
  if (panel.type === 'row') {
    return <div style={{ ...place, lineHeight: '30px', fontSize: 16, fontWeight: 500 }}>{panel.title}</div>;
  }
  const Kind = kinds[panel.type];
  return (
    <div style={place}>
      <PanelChrome title={panel.title} description={panel.description} width={place.width} height={place.height} padding={panel.type === 'table' ? 'none' : 'md'}>
        {(width, height) => <Kind panel={panel} data={data} width={width} height={height} />}
      </PanelChrome>
    </div>
  );
}

function Page({ panels }) {
  useEffect(() => { setTimeout(() => { document.title = 'drawn'; }, 2000); }, []); // with its icons
  const rows = Math.max(...dashboard.panels.map(({ gridPos: { y, h } }) => y + h));
  const time = (at) => at.utc().format('YYYY-MM-DD HH:mm:ss');
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={{ eventsScope: 'global', eventBus: new EventBusSrv() }}>
        <div style={{ padding: 16 }}>
          <div style={{ display: 'flex', gap: 24, alignItems: 'baseline', height: 32 }}>
            <b style={{ fontSize: 18, fontWeight: 500 }}>{dashboard.title}</b>
            {dashboard.templating.list.map(({ label, current }) => <span key={label}>{label}: {current.text ?? 'Prometheus'}</span>)}
            <span style={{ marginLeft: 'auto' }}>{time(range.from)} to {time(range.to)} UTC</span>
          </div>
          <div style={{ position: 'relative', height: cell(rows) }}>
            {panels.map(([panel, data]) => <Panel key={panel.id} panel={panel} data={data} />)}
          </div>
        </div>
      </PanelContextProvider>
    </ThemeContext.Provider>
  );
}

const drawn = dashboard.panels.map(async (panel) => [panel, panel.type === 'row' ? [] : await dataOf(panel)]);
createRoot(document.body.appendChild(document.createElement('div'))).render(<Page panels={await Promise.all(drawn)} />);
